"""What the command finds, and how its end is recorded."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from open_files import open_files_of

if TYPE_CHECKING:
    from e2e.launch.conftest import AgentHost


def test_a_command_that_ends_well_is_recorded(host: AgentHost) -> None:
    agent = host.run("echo hi; echo ho >&2")
    record = agent.record
    assert agent.log == "hi\nho\n"
    assert record["exit_code"] == 0
    assert record["signal"] is None
    assert record["error"] is None
    assert record["stop_reason"] is None
    assert record["leftovers_killed"] == 0
    assert record["containment"] == host.containment
    assert record["host"] == os.uname().nodename
    assert record["started_at"] <= record["ended_at"]


@pytest.mark.parametrize(
    ("command", "exit_code", "signal_name"),
    [
        ("exit 3", 3, None),
        ("false; echo not reached", 1, None),
        ("false | true", 1, None),
        ("echo $not_set_at_all", 1, None),
        ("no_such_program_anywhere", 127, None),
        ("exit 130", 130, None),
        ("bash -c 'kill -9 $$'", 137, None),
        ("kill -9 $$", None, "SIGKILL"),
        ("kill -SEGV $$", None, "SIGSEGV"),
        ("kill -TERM $$", None, "SIGTERM"),
    ],
)
def test_exit_codes_stay_codes_and_signals_of_bash_get_their_name(
    user_host: AgentHost, command: str, exit_code: int | None, signal_name: str | None
) -> None:
    record = user_host.run(command).record
    assert (record["exit_code"], record["signal"]) == (exit_code, signal_name)


@pytest.mark.parametrize(("command", "expected"), [("kill -9 $$", (None, "SIGKILL")), ("exit 3", (3, None))])
def test_the_same_ends_in_a_pid_namespace(
    namespace_host: AgentHost, command: str, expected: tuple[int | None, str | None]
) -> None:
    record = namespace_host.run(command).record
    assert (record["exit_code"], record["signal"]) == expected


def test_bash_names_the_command_file_as_itself(host: AgentHost) -> None:
    agent = host.run('printf "%s\\n" "$0" "${BASH_SOURCE[0]}" "$#" "$-"')
    name, source, count, flags = agent.log.replace(agent.order.command_file, "FILE").splitlines()
    assert (name, source, count) == ("FILE", "FILE", "0")
    assert {"e", "u"} <= set(flags)


def test_the_command_starts_in_a_working_folder_with_spaces_quotes_and_newlines(host: AgentHost) -> None:
    agent = host.run("pwd -P; touch made-here")
    assert agent.log == f"{host.work}\n"
    assert (host.work / "made-here").exists()


def test_the_command_reads_nothing_from_its_input(host: AgentHost) -> None:
    assert host.run("cat; wc -c < /dev/stdin").log.strip() == "0"


def test_the_environment_is_the_nodes_and_the_orders_but_not_another_runs(host: AgentHost) -> None:
    outer = {**os.environ, "RANK": "3", "MLFLOW_RUN_ID": "other", "RAY_ADDRESS": "10.0.0.1", "OF_THE_NODE": "a b\nc"}
    env = {"AIR_RUN_ID": host.run_id, "OF_THE_ORDER": "quote\" ' and\nnewline"}
    agent = host.start(
        "python3 - <<'E'\nimport json, os; print(json.dumps(dict(os.environ)))\nE\n", popen={"env": outer}, env=env
    )
    agent.end()
    found = json.loads(agent.log)
    assert found["OF_THE_NODE"] == "a b\nc"
    assert found["OF_THE_ORDER"] == env["OF_THE_ORDER"]
    assert found["PWD"] == str(host.work)
    assert not {"RANK", "MLFLOW_RUN_ID", "RAY_ADDRESS", "AIR_KEEP_FDS"} & set(found)


def test_the_command_inherits_limits_and_mask_but_no_ignored_signals(user_host: AgentHost) -> None:
    def of_the_supervisor() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (321, 321))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

    command = "ulimit -n; umask; grep -E 'Sig(Blk|Ign)' /proc/self/status"
    agent = user_host.start(command, popen={"preexec_fn": of_the_supervisor, "umask": 0o027})
    agent.end()
    limit, mask, blocked, ignored = agent.log.splitlines()
    assert (limit, mask) == ("321", "0027")
    assert int(blocked.split()[1], 16) == 0
    # The C library keeps signals 32 and 33 to itself: nobody can set them, and some starters leave them ignored.
    assert int(ignored.split()[1], 16) & ~(0b11 << 31) == 0


def test_descriptors_of_the_parent_stay_in_the_agent_and_out_of_the_command(host: AgentHost) -> None:
    with tempfile.TemporaryFile() as slot, tempfile.TemporaryFile() as stray:
        fcntl.flock(slot, fcntl.LOCK_EX)
        numbers = (slot.fileno(), stray.fileno())
        popen = {"pass_fds": numbers, "env": {**os.environ, "AIR_KEEP_FDS": str(slot.fileno())}}
        look = "for fd in {0..254}; do if [ -e /proc/$$/fd/$fd ]; then echo $fd; fi; done; echo ready; sleep 600"
        agent = host.start(look, popen=popen)
        agent.said("ready")
        assert agent.log == "0\n1\n2\nready\n"
        agent_has = open_files_of(agent.process.pid).values()
        assert Path(f"/proc/self/fd/{slot.fileno()}").readlink() in agent_has
        assert Path(f"/proc/self/fd/{stray.fileno()}").readlink() not in agent_has
        agent.ask("kill")
        agent.end()


def test_a_command_may_close_its_output(host: AgentHost) -> None:
    agent = host.run("echo before; exec >&- 2>&-; exit 4")
    assert agent.log == "before\n"
    assert agent.record["exit_code"] == 4


def test_output_is_appended_to_a_log_that_is_there(host: AgentHost) -> None:
    Path(host.order("").log_file).write_text("from before\n")
    assert host.run("echo more").log == "from before\nmore\n"


def test_a_pid_namespace_shows_only_the_commands_processes(namespace_host: AgentHost) -> None:
    agent = namespace_host.run("echo $$; ls -d /proc/[0-9]* | wc -l; mkdir -p there; mount -t tmpfs none there")
    pid, count = agent.log.split()
    assert int(pid) == 2
    assert int(count) <= 4
    assert not (namespace_host.work / "there").is_mount()


def test_auto_containment_is_a_namespace_for_root_and_a_subreaper_for_others(host: AgentHost) -> None:
    record = host.run("true", containment="auto").record
    assert record["containment"] == ("subreaper" if host.user else "pid_namespace")


def test_a_namespace_that_is_not_permitted_falls_back_to_a_subreaper(user_host: AgentHost) -> None:
    agent = user_host.run("echo ran", containment="pid_namespace")
    assert agent.log == "ran\n"
    assert agent.record["containment"] == "subreaper"


def test_a_proc_that_may_not_be_mounted_falls_back_to_a_subreaper(namespace_host: AgentHost) -> None:
    broken = namespace_host.folder / "lib/airlane/launch/libc.py"
    broken.write_text(
        broken.read_text().replace("kind.encode() if kind else None", 'b"no such kind" if kind else None')
    )
    agent = namespace_host.run("echo ran; ./sleeper & disown")
    assert agent.log == "ran\n"
    assert agent.record["containment"] == "subreaper"
    assert agent.record["leftovers_killed"] == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda host: {"working_folder": f"{host.folder}/gone"}, "gone"),
        (lambda host: {"log_file": f"{host.folder}/no/such/0.log"}, "No such file"),
        (lambda _: {"env": {"PATH": "/nowhere"}}, "bash"),
        (lambda host: {"secrets_files": (f"{host.folder}/none.json",)}, "none.json"),
        (lambda _: {"scratch_folders": ("/proc/version",)}, "/proc/version"),
    ],
    ids=["working folder", "log folder", "bash", "secrets", "scratch folder"],
)
def test_what_keeps_the_command_from_starting_is_named(
    host: AgentHost, change: Callable[[AgentHost], dict[str, object]], words: str
) -> None:
    record = host.run("true", **change(host)).record
    assert record["exit_code"] is None
    assert record["signal"] is None
    assert record["error"].startswith("the command could not be started: ")
    assert words in record["error"]


def test_an_unreadable_order_has_its_own_exit_code(user_host: AgentHost) -> None:
    broken = user_host.folder / "broken.json"
    broken.write_text("{")
    user_host.hand_over()
    for arguments in ([], [str(user_host.folder / "none.json")], [str(broken)]):
        ended = subprocess.run([*user_host.agent_line, *arguments], capture_output=True, text=True, check=False)
        assert ended.returncode == 64
        assert "airlane agent" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_record_that_cannot_be_written_has_its_own_exit_code(user_host: AgentHost) -> None:
    agent = user_host.start("true", record_file=f"{user_host.folder}/no/such/0.json")
    assert agent.process.wait(30) == 74


@pytest.mark.root
def test_a_full_disk_does_not_hide_how_the_command_ended(namespace_host: AgentHost) -> None:
    disk = namespace_host.folder / "small disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=True)
    try:
        command = 'until [ -e "$DISK/0.json.next" ]; do sleep 0.01; done; cat /dev/zero > "$DISK/fill" || exit 5'
        changes = {"env": {"DISK": str(disk)}, "record_file": f"{disk}/0.json", "log_file": f"{disk}/0.log"}
        agent = namespace_host.start(command, popen=None, **changes)
        assert agent.end()["exit_code"] == 5
        assert (disk / "fill").stat().st_size > 40_000
    finally:
        subprocess.run(["umount", disk], check=True)


def test_scratch_folders_are_made_private_and_removed_with_all_they_hold(host: AgentHost) -> None:
    folder = f"/tmp/air scratch {host.run_id}"
    env = {"SCRATCH": folder}
    command = 'stat -c %a "$SCRATCH"; mkdir -p "$SCRATCH/a/b"; ln -s "$PWD" "$SCRATCH/a/link"; touch "$SCRATCH/a/b/c"'
    agent = host.run(command, env=env, scratch_folders=(folder,))
    assert agent.log == "700\n"
    assert not os.path.lexists(folder)
    assert host.work.exists()


def test_a_scratch_folder_that_another_user_made_first_is_refused(user_host: AgentHost) -> None:
    if user_host.user == os.geteuid():
        pytest.skip("needs root: a second user")
    with tempfile.TemporaryDirectory() as taken:
        record = user_host.run("true", scratch_folders=(taken,)).record
        assert "File exists" in record["error"]


def test_metrics_are_sampled_at_the_start_and_at_the_end(host: AgentHost) -> None:
    path = host.folder / "0.metrics.jsonl"
    host.run("true", metrics_file=str(path), metrics_interval_s=600.0)
    first, last = (json.loads(line) for line in path.read_text().splitlines())
    assert last["t"] >= first["t"]
    assert {"system_memory_usage_megabytes", "disk_usage_percentage", "network_receive_megabytes"} <= set(first["m"])
    assert set(first["m"]) <= set(last["m"])


def test_an_agent_stays_small(host: AgentHost) -> None:
    agent = host.start(
        "echo ready; sleep 600", secrets_files=(host.secrets({"A": "abcdefgh"}),), metrics_file=f"{host.folder}/m.jsonl"
    )
    agent.said("ready")
    from_status = Path(f"/proc/{agent.process.pid}/status").read_text()
    rss_kilobytes = int(from_status.partition("VmRSS:")[2].split()[0])
    agent.ask("kill")
    agent.end()
    assert rss_kilobytes < 20_000


def test_an_agent_started_without_standard_descriptors_takes_that_for_a_lost_supervisor(user_host: AgentHost) -> None:
    agent = user_host.start("./sleeper", popen={"stdin": None, "preexec_fn": lambda: os.closerange(0, 3)})
    record = agent.end()
    assert (record["signal"], record["stop_reason"]) == ("SIGTERM", "orphaned")


@pytest.mark.root
def test_a_kill_for_lack_of_memory_is_told(namespace_host: AgentHost) -> None:
    group = Path(f"/sys/fs/cgroup/memory/air-{namespace_host.run_id}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text("64M")
    except OSError as error:
        pytest.skip(f"needs a writable control group for memory (version 1): {error}")
    try:
        popen = {"preexec_fn": lambda: (group / "cgroup.procs").write_text("0")}
        agent = namespace_host.start("python3 -c 'bytearray(300 << 20)'; echo not reached", popen=popen)
        record = agent.end()
        assert (record["exit_code"], record["oom_kill"]) == (137, True)
    finally:
        group.rmdir()
