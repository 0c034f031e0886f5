"""Jobs on a real cluster: their output, their exit codes, and how they are followed."""

from __future__ import annotations

import json
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from ray_lab import RayLab

from .conftest import Desk, Wire, wait_until

pytestmark = pytest.mark.slow

# Ten thousand lines at once, odd bytes, a silence, and an end without a newline.
TALKER = """
import os, sys, time
for n in range(10_000):
    os.write(1, b"line %d\\n" % n)
os.write(2, "ünï\\n".encode() + b"\\xff\\x00\\n")
time.sleep(1)
os.write(1, b"the end")
"""
TOLD = b"".join(b"line %d\n" % n for n in range(10_000)) + "ünï\n".encode() + b"\xff\x00\nthe end"
COUNTER = "import time\nfor n in range(60): print(n, flush=True); time.sleep(0.1)"
COUNTED = "".join(f"{n}\n" for n in range(60)).encode()


def test_the_output_is_the_commands_own_and_its_words_arrive_as_they_were_typed(desk: Desk) -> None:
    words = ["a b", "$HOME", "ü'\"", "", "*", "two\nlines"]
    done = desk.submit("--", "python", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *words)
    assert (done.returncode, json.loads(done.stdout)) == (0, words), done.stderr
    assert done.stderr.splitlines()[-1].startswith("✓ SUCCEEDED  in ")


@pytest.mark.parametrize(
    ("line", "code", "verdict"),
    [
        ("exit 3", 3, "exited with code 3"),
        ("kill -9 $$", 137, "exited with code 137 (SIGKILL)"),
        ("exec no-such-program", 127, "exited with code 127 (command not found)"),
    ],
)
def test_the_exit_code_is_the_commands_own(desk: Desk, line: str, code: int, verdict: str) -> None:
    done = desk.submit("--", "bash", "-c", f"echo before; {line}")
    assert done.returncode == code
    assert done.stdout.startswith("before\n")
    assert done.stderr.splitlines()[-1].endswith(verdict)


def test_every_byte_is_told_once_with_an_end_that_is_no_line(desk: Desk) -> None:
    typed = desk.typed("ray", "job", "submit", "--", "python", "-c", TALKER)
    code, out, err = typed.ended()
    assert (code, out == TOLD) == (0, True), (len(out), len(TOLD), err)
    again = desk.typed("ray", "job", "logs", "@last").ended()
    assert again[:2] == (0, TOLD)
    last = desk.typed("ray", "job", "logs", "@last", "--no-follow", "--lines", "3").ended()
    assert last[:2] == (0, "ünï\n".encode() + b"\xff\x00\nthe end")


def test_lines_come_while_the_job_runs_and_ctrl_c_leaves_it_running(desk: Desk) -> None:
    typed = desk.typed("ray", "job", "submit", "--", "python", "-c", COUNTER)
    typed.until(b"3\n")
    typed.interrupt()
    code, _, err = typed.ended()
    assert code == 130
    (job_id,) = {line.rpartition(" ")[2] for line in err.splitlines() if "air ray job logs" in line}
    assert f"The job goes on: air ray job logs {job_id}" in err
    assert desk.status(job_id)["status"] == "RUNNING"
    assert desk.typed("ray", "job", "logs", job_id).ended()[:2] == (0, COUNTED)


def test_following_from_the_last_lines_on_tells_none_twice(desk: Desk) -> None:
    job_id = desk.started("--", "python", "-c", COUNTER)
    wait_until(
        lambda: "9" in desk.air("ray", "job", "logs", job_id, "--no-follow").stdout.split(), within_s=60, what="9"
    )
    code, out, _ = desk.typed("ray", "job", "logs", job_id, "--lines", "2").ended()
    numbers = [int(line) for line in out.split()]
    assert code == 0
    assert numbers == list(range(numbers[0], 60))
    assert numbers[0] >= 8


def test_a_connection_that_is_cut_loses_no_line_and_tells_none_twice(desk: Desk, wire: Wire) -> None:
    there = desk.with_variables(RAY_API_SERVER_ADDRESS=wire.url)
    typed = there.typed("ray", "job", "submit", "--", "python", "-c", COUNTER)
    for text in (b"5\n", b"15\n", b"25\n"):
        typed.until(text)
        wire.cut()
    typed.until(b"35\n")
    wire.close()
    time.sleep(2)
    wire.open()
    code, out, err = typed.ended()
    assert (code, out) == (0, COUNTED), err
    assert f"! {wire.url} refuses the connection: asking again\n! the cluster answers again\n" in err


def test_a_job_that_ends_while_nobody_can_ask_is_told_to_its_end(desk: Desk, wire: Wire) -> None:
    there = desk.with_variables(RAY_API_SERVER_ADDRESS=wire.url)
    typed = there.typed("ray", "job", "submit", "--", "bash", "-c", "echo first; sleep 2; echo last; exit 4")
    typed.until(b"first\n")
    wire.close()
    job_id = desk.data("ray", "job", "list")["jobs"][0]["submission_id"]
    wait_until(lambda: desk.status(job_id)["status"] == "FAILED", within_s=60, what="the job ends")
    wire.open()
    assert typed.ended()[:2] == (4, b"first\nlast\n")


def test_a_stopped_job_is_told_as_stopped_to_who_follows_it(desk: Desk) -> None:
    typed = desk.typed("ray", "job", "submit", "--submission-id", "to-stop", "--", "bash", "-c", "echo up; sleep 100")
    typed.until(b"up\n")
    done = desk.air("ray", "job", "stop", "to-st")
    assert (done.returncode, done.stderr.startswith("✓ to-stop STOPPED  in ")) == (0, True), done.stderr
    code, _, err = typed.ended()
    assert (code, err.splitlines()[-1].startswith("! STOPPED  after ")) == (1, True)
    assert desk.air("ray", "job", "stop", "to-stop").stderr == "to-stop has ended: STOPPED\n"


def test_a_driver_on_another_node_is_followed_all_the_same(desk: Desk, ray_lab: RayLab) -> None:
    line = "import os; print(os.environ['RAY_ADDRESS'] and 'there')"
    done = desk.submit("--entrypoint-resources", '{"node:127.0.0.3": 0.01}', "--", "python", "-c", line)
    assert (done.returncode, done.stdout) == (0, "there\n"), done.stderr
    assert desk.status("@last")["driver_node_id"] == ray_lab.node_id(1)


def test_what_no_node_can_hold_is_refused_at_once_with_the_numbers(desk: Desk) -> None:
    before = len(desk.data("ray", "job", "list")["jobs"])
    began = time.monotonic()
    done = desk.submit("--entrypoint-num-gpus", "8", "--", "true")
    took_s = time.monotonic() - began
    assert done.returncode == 1
    assert "has 8 GPUs, which the entrypoint asks for. The most on one node: 2 GPUs" in done.stderr
    assert took_s < 2
    assert len(desk.data("ray", "job", "list")["jobs"]) == before


def test_what_waits_for_a_busy_node_says_so_with_the_numbers(desk: Desk) -> None:
    place = '{"node:127.0.0.3": %s}'
    holder = desk.started("--entrypoint-resources", place % "0.9", "--", "sleep", "100")
    wait_until(lambda: desk.status(holder)["status"] == "RUNNING", within_s=60, what="the first runs")
    line = ("ray", "job", "submit", "--json", "--entrypoint-resources", place % "0.5", "--", "echo", "hi")
    typed = desk.typed(*line)
    typed.until(b"the most free on one: 0.1 node:127.0.0.3")
    desk.air("ray", "job", "stop", holder)
    code, out, _ = typed.ended()
    assert code == 0
    assert [event["line"] for event in map(json.loads, out.splitlines()) if event.get("type") == "LOG"] == ["hi"]


@pytest.mark.long
def test_a_job_that_waits_is_stopped_when_it_starts_and_until_then_it_is_said_so(desk: Desk) -> None:
    place = '{"node:127.0.0.3": %s}'
    holder = desk.started("--entrypoint-resources", place % "0.9", "--", "sleep", "100")
    wait_until(lambda: desk.status(holder)["status"] == "RUNNING", within_s=60, what="the first runs")
    waits = desk.started("--entrypoint-resources", place % "0.5", "--", "sleep", "100")
    done = desk.air("ray", "job", "stop", waits)
    assert done.stderr == f"! {waits} was asked to stop. It has not started yet: Ray ends it when it does\n"
    assert desk.status(waits)["status"] == "PENDING"
    desk.air("ray", "job", "stop", holder)
    wait_until(lambda: desk.status(waits)["status"] == "STOPPED", within_s=60, what="it is ended when it starts")


def test_an_id_of_ones_own_is_taken_once(desk: Desk) -> None:
    name = f"mine-{time.time_ns()}"
    assert desk.started("--submission-id", name, "--metadata", "team=nlp", "--", "true") == name
    again = desk.submit("--submission-id", name, "--", "true")
    assert (again.returncode, again.stderr.splitlines()[0]) == (1, f"the cluster has a job {name}")
    assert desk.status(name)["metadata"] == {"team": "nlp"}


def test_jobs_and_drivers_are_listed_the_newest_first(desk: Desk, ray_lab: RayLab, ray_python: Path) -> None:
    program = "import ray; ray.init(log_to_driver=False); print(ray.get_runtime_context().get_job_id())"
    driver = subprocess.run(
        [ray_python, "-c", textwrap.dedent(program)],
        env={**desk.env, **ray_lab.env},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout.strip()
    newest = desk.started("--", "true")
    jobs = desk.data("ray", "job", "list")["jobs"]
    assert jobs[0]["submission_id"] == newest
    (listed,) = [job for job in jobs if job["job_id"] == driver]
    assert (listed["submission_id"], listed["status"]) == (None, "SUCCEEDED")
    assert desk.status(driver)["job_id"] == driver
    assert driver in desk.air("ray", "job", "list").stdout
    assert desk.air("ray", "job", "logs", driver).returncode == 2
    assert all(job["status"] == "FAILED" for job in desk.data("ray", "job", "list", "--status", "failed")["jobs"])


def test_a_mistyped_id_has_a_guess(desk: Desk) -> None:
    desk.submit("--submission-id", "tokenizer-7", "--no-wait", "--", "true")
    done = desk.air("ray", "job", "status", "tokenizr-7")
    assert done.returncode == 1
    assert "the Ray cluster has no job tokenizr-7\n  Did you mean `tokenizer-7`?" in done.stderr
