"""What air-ranks promises, on a real cluster of three nodes with logical GPUs; a test for each promise.

Those that kill nodes are in test_sudden_deaths.py, those about torch in test_drop_in.py.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ray_lab import RayLab

from .conftest import Launched, Ranks, alive, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TWO_BY_TWO = ("--nodes", "2", "--nproc-per-node", "2")
# Which of the lab's nodes a rank is on stands in its environment.
WHERE = """
import os, sys
e = os.environ
node = e["AIR_TEST_RAY_LAB"].rpartition("/")[2]
print("at", node, e["GROUP_RANK"], e["LOCAL_RANK"], repr(e["CUDA_VISIBLE_DEVICES"]), e["TORCHELASTIC_RESTART_COUNT"])
"""
SLEEPS = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print("pids", os.getpid(), child.pid, flush=True)
"""


def pids(text: str) -> list[int]:
    """The processes that the ranks said they are."""
    return [int(pid) for line in re.findall(r"pids ([\d ]+)", text) for pid in line.split()]


def test_1_more_than_the_cluster_has_is_refused_at_once_with_the_numbers(ranks: Ranks) -> None:
    ranks.write("x.py", "")
    nodes = ranks.run("--nodes", "4", "--gpus-per-node", "2", "x.py")
    assert nodes.code == 1
    assert "✗ no room for 4 nodes with 2 GPUs and 2 CPUs each: 3 of the cluster's 3 nodes can hold that" in nodes.errors
    assert "127.0.0.3 lab-1: 2 GPUs, 2 CPUs" in nodes.errors
    assert "air-ranks --nodes 3 --gpus-per-node 2 ..." in nodes.errors
    gpus = ranks.run("--nodes", "2", "--gpus-per-node", "8", "x.py")
    assert "none of the cluster's 3 nodes can hold that" in gpus.errors
    assert "air-ranks --nodes 1 --gpus-per-node 2 ..." in gpus.errors
    assert ranks.groups_left() == []


def test_1_what_is_busy_is_waited_for_until_a_deadline_that_names_who_is(ranks: Ranks) -> None:
    ranks.write("sleeps.py", SLEEPS + "time.sleep(600)")
    with ranks.start("--nodes", "2", "--gpus-per-node", "1", "sleeps.py") as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        late = ranks.run("--nodes", "3", "--gpus-per-node", "2", "--timeout", "4", "sleeps.py")
        assert late.code == 1
        assert "waiting: 1 of 3 nodes with 2 GPUs and 2 CPUs free" in late.errors
        assert re.search(
            r"✗ not placed within 4 s: 1 of 3 nodes .* \(127\.0\.0\.\d lab-\d: 1 of 2 GPUs free; ", late.errors
        )
        assert len(ranks.groups_left()) == 1
        holder.terminate()
        assert holder.wait(timeout=60) == 128 + signal.SIGTERM
    ranks.assert_nothing_left()


def test_2_ranks_are_on_distinct_nodes_in_the_order_of_addresses_and_stay_there_when_restarted(ranks: Ranks) -> None:
    ranks.write("where.py", WHERE + "if e['RANK'] == '3' and e['TORCHELASTIC_RESTART_COUNT'] == '0': sys.exit(5)\n")
    done = ranks.run(*TWO_BY_TWO, "--max-restarts", "1", "where.py")
    assert done.code == 0, done.errors
    places = [text.split()[1:4] + text.split()[-1:] for text in done.said("at .*")]
    last = [place for place in places if place[-1] == "1"]
    assert len(last) == 4
    assert last[0][0] == last[1][0] < last[2][0] == last[3][0]  # the lab's numbers are in the order of addresses
    assert [place[1:3] for place in last] == [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]]
    first = {tuple(place[:3]) for place in places if place[-1] == "0"}
    assert first <= {tuple(place[:3]) for place in last}
    for node, rank_node in (("0", int(last[0][0])), ("1", int(last[2][0]))):
        assert f"node {node}  127.0.0.{rank_node + 2} lab-{rank_node}" in done.errors


def test_2_a_topology_decides_the_order_of_nodes(ranks: Ranks) -> None:
    ranks.write("where.py", WHERE)
    ranks.write("order", "lab-2  # the far one first\n127.0.0.2\n")
    done = ranks.run("--nproc-per-node", "1", "--topology", "order", "where.py")
    assert [text.split()[1] for text in done.said("at .*")] == ["2", "0", "1"]


def test_3_ranks_see_the_logical_gpus_of_their_node_and_find_theirs_by_the_local_rank(ranks: Ranks) -> None:
    ranks.write("where.py", WHERE)
    done = ranks.run("--nodes", "1", "--gpus-per-node", "2", "where.py", env={"CUDA_VISIBLE_DEVICES": "7"})
    assert [text.split()[3:5] for text in done.said("at .*")] == [["0", "'0,1'"], ["1", "'0,1'"]]
    assert "GPUs 0,1" in done.errors


def test_3_ranks_without_gpus_see_none_of_the_logical_gpus_of_their_node(ranks: Ranks) -> None:
    ranks.write("where.py", WHERE)
    done = ranks.run(*TWO_BY_TWO, "--cpu-only", "where.py")
    assert [text.split()[4] for text in done.said("at .*")] == ["''"] * 4


def test_3_logical_gpus_with_names_keep_the_order_that_their_node_was_given(tmp_path: Path, ray_python: Path) -> None:
    names = {"CUDA_VISIBLE_DEVICES": "GPU-ffff0000,MIG-aaaa1111"}
    with RayLab(tmp_path, ray_python, nodes=1, settings=names) as lab:
        ranks = Ranks(tmp_path, ray_python, lab)
        ranks.write("where.py", WHERE)
        done = ranks.run("--gpus-per-node", "2", "where.py")
        assert [text.split()[3:5] for text in done.said("at .*")] == [
            ["0", "'GPU-ffff0000,MIG-aaaa1111'"],
            ["1", "'GPU-ffff0000,MIG-aaaa1111'"],
        ]


LISTENS = """
import os, socket
def listen():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    s.listen()
    return s
if os.environ["RANK"] == "0":
    if os.environ["AIR_RANKS_GENERATION"] == "0":
        thief = listen()
    store = listen()
print("port", os.environ["MASTER_PORT"], os.environ["TORCHELASTIC_RESTART_COUNT"])
"""


def test_4_a_port_that_is_taken_between_its_choice_and_its_use_is_replaced_without_a_restart(ranks: Ranks) -> None:
    ranks.write("listens.py", LISTENS)
    done = ranks.run("--nodes", "2", "--nproc-per-node", "1", "listens.py")
    assert done.code == 0, done.errors
    assert "! somebody else listens on the master port: once more, with another port" in done.errors
    ports = [text.split()[1:] for text in done.said("port .*")]
    assert ports[-1][1] == "0"
    assert len({port for port, _ in ports if done.errors.count(port)}) >= 1
    assert len(re.findall(r"master  127\.0\.0\.\d:(\d+)", done.errors)) == 2


FAILS = (
    SLEEPS
    + """
import signal
import subprocess
if os.environ["RANK"] == "2":
    time.sleep(1)
    print("failed at", time.time(), flush=True)
    def deep():
        raise ValueError("the loss is not a number")
    try:
        deep()
    except ValueError:
        import traceback
        traceback.print_exc()
        os._exit(7)
if os.environ["RANK"] == "1":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""
)


def test_5_the_first_rank_that_fails_ends_all_within_three_seconds_and_is_told_first(ranks: Ranks) -> None:
    ranks.write("fails.py", FAILS)
    with ranks.start(*TWO_BY_TWO, "fails.py") as process:
        assert process.stdout is not None
        lines = ""
        while "failed at" not in lines:
            line = process.stdout.readline()
            assert line, lines
            lines += line
        failed_at = float(lines.split("failed at")[1])
        found = pids(lines)
        wait_until(lambda: not alive(found), within_s=10, what="every rank and all it started is gone")
        assert time.time() - failed_at < 3
        _, errors = process.communicate(timeout=60)
    assert len(found) == 8
    assert process.returncode == 7
    said = errors[errors.index("✗") :].splitlines()
    assert re.match(r"✗ rank 2 on node 1 \(.*\) exited with code 7, .* after its start", said[0])
    assert said[1] == "    Traceback (most recent call last):"
    assert said[-2] == "    ValueError: the loss is not a number"
    assert said[-1] == "  ranks 0-1, 3 were stopped because of it"
    ranks.assert_nothing_left()


@pytest.mark.parametrize(
    ("code", "exit_code", "words"),
    [
        ("os.kill(os.getpid(), 11)", 139, "was killed by SIGSEGV"),
        ("sys.exit('no data')", 1, "exited with code 1"),
    ],
    ids=["signal", "message"],
)
def test_5_the_exit_code_is_that_of_the_rank(ranks: Ranks, code: str, exit_code: int, words: str) -> None:
    ranks.write("ends.py", f"import os, sys, time\nif os.environ['RANK'] == '1': {code}\ntime.sleep(600)")
    done = ranks.run("--nodes", "1", "--nproc-per-node", "2", "ends.py")
    assert done.code == exit_code
    assert f"GPU 1) {words}" in done.errors


HANGS = """
import os, time
def waits_for_the_others(): time.sleep(600)
def still_saves(): time.sleep(600)
print("up", flush=True)
(still_saves if os.environ["RANK"] == "1" else waits_for_the_others)()
"""


def test_6_silence_shows_where_every_rank_is_and_ends_with_a_code_of_its_own(ranks: Ranks) -> None:
    ranks.write("hangs.py", HANGS)
    done = ranks.run(*TWO_BY_TWO, "--watchdog", "3", "hangs.py")
    assert done.code == 124
    said = done.errors[done.errors.index("✗") :]
    assert said.startswith("✗ no rank has written anything for 3 s: asking each where it is\n  rank 1 is at\n")
    saves, waits = said.index("in still_saves"), said.index("ranks 0, 2-3 are at")
    assert saves < waits < said.index("in waits_for_the_others")
    ranks.assert_nothing_left()


def test_7_equal_lines_of_all_ranks_are_shown_whole_and_logged_by_rank(ranks: Ranks) -> None:
    ranks.write("talks.py", "for n in range(500): print('the same line ' * 5, flush=n % 7 == 0)")
    done = ranks.run(*TWO_BY_TWO, "--log-dir", "my logs", "talks.py")
    line = "the same line " * 5
    assert sorted(done.out.splitlines()) == sorted(f"[rank {rank}] {line}" for rank in range(4) for _ in range(500))
    logs = sorted((ranks.folder / "my logs").glob("*/0/rank-*.log"))
    assert [log.name for log in logs] == [f"rank-{rank}.log" for rank in range(4)]
    assert {log.read_text() for log in logs} == {f"{line}\n" * 500}


@pytest.mark.long
def test_7_a_rank_that_writes_faster_than_anybody_reads_waits_and_fills_no_memory(ranks: Ranks) -> None:
    ranks.write(
        "floods.py", "import sys\nfor n in range(10**7):\n print('x' * 999)\n n % 1000 or open('n', 'w').write(str(n))"
    )
    with ranks.start("--nodes", "1", "--nproc-per-node", "1", "floods.py") as process:
        counter = ranks.folder / "n"
        wait_until(lambda: counter.exists() and counter.read_text() != "", within_s=60, what="it writes")
        seen = ""
        wait_until(lambda: _stands_still(counter), within_s=30, what="it waits")
        seen = counter.read_text()
        assert int(seen) < 20_000, "twenty megabytes went somewhere"
        process.terminate()
        process.communicate(timeout=60)
    ranks.assert_nothing_left()


def _stands_still(file: Path) -> bool:
    before = file.read_text()
    time.sleep(0.5)
    return before != "" and file.read_text() == before


@pytest.mark.long
def test_8_nothing_is_left_when_the_output_is_not_read_any_more(ranks: Ranks) -> None:
    ranks.write("talks.py", "import time\nwhile True: print('x', flush=True); time.sleep(0.01)")
    with ranks.start("--nodes", "1", "--nproc-per-node", "1", "talks.py") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 141
    ranks.assert_nothing_left()


SAVES = """
import os, signal, sys, time
def save(*_):
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True: time.sleep(1)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_8_ranks_may_save_when_the_launch_is_stopped(ranks: Ranks, number: signal.Signals) -> None:
    ranks.write("saves.py", SAVES)
    with ranks.start(*TWO_BY_TWO, "saves.py") as process:
        assert process.stdout is not None
        for _ in range(4):
            assert process.stdout.readline().endswith("up\n")
        process.send_signal(number)
        out, errors = process.communicate(timeout=60)
    assert out.count("saved\n") == 4, errors
    assert process.returncode == 128 + number
    ranks.assert_nothing_left()


COUNTS = """
import os, sys
print("try", os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["AIR_RANKS_GENERATION"])
sys.exit(3)
"""


def test_9_restarts_are_bounded_and_each_generation_has_its_number_and_its_files(ranks: Ranks) -> None:
    ranks.write("fails.py", COUNTS)
    done = ranks.run("--nodes", "1", "--nproc-per-node", "1", "--max-restarts", "2", "fails.py")
    assert done.code == 3
    assert done.said("try .*") == ["try 0 0", "try 1 1", "try 2 2"]
    assert "starting again: restart 2 of 2" in done.errors
    assert len(list(ranks.folder.glob("ranks-logs/*/[012]/rank-0.log"))) == 3
    ranks.assert_nothing_left()


def test_a_script_that_is_not_there_is_told_with_the_node(ranks: Ranks) -> None:
    done: Launched = ranks.run("--nodes", "2", "--nproc-per-node", "1", "missing.py")
    assert done.code == 127
    assert re.search(r"✗ rank \d on node \d \(127.* could not be started: .*missing\.py is not there", done.errors)


@pytest.mark.long
def test_a_working_folder_is_sent_to_nodes_that_do_not_have_it(ranks: Ranks) -> None:
    away = ranks.folder / "away"
    away.mkdir()
    (away / "main.py").write_text("import os, part; print('here', part.NAME, os.getcwd() != os.environ['SENT_FROM'])")
    (away / "part.py").write_text("NAME = 'part'")
    words = ["--working-dir", str(away), "--env", f"SENT_FROM={away}", str(away / "main.py")]
    done = ranks.run("--nodes", "2", "--nproc-per-node", "1", *words)
    assert done.said("here .*") == ["here part True"] * 2, done.errors


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ({}, "✗ the Ray cluster wants a token"),
        ({"RAY_AUTH_TOKEN": "a" * 64}, "does not accept the token of RAY_AUTH_TOKEN"),
    ],
    ids=["none", "a wrong one"],
)
def test_a_cluster_with_a_token_says_what_to_do_without_it(ranks: Ranks, token: dict[str, str], words: str) -> None:
    """Ray's own client repeats itself for 20 seconds, and then says that it could not connect."""
    ranks.write("x.py", "print('never')")
    env = {name: value for name, value in ranks.env.items() if not name.startswith("RAY_AUTH")}
    line = ["air-ranks", "x.py"]
    done = subprocess.run(
        line, cwd=ranks.folder, env={**env, **token}, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.endswith("\n  export RAY_AUTH_TOKEN_PATH=FILE\n")
    assert "gcs_client" not in done.stderr
