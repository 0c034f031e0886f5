"""Workloads in real containers of Docker and Podman, on this machine."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

from e2e.runs.conftest import ended, wait_until

from .conftest import BoxedLane

pytestmark = pytest.mark.root


def test_a_command_finds_the_image_around_it_and_its_run_in_it(boxed: BoxedLane) -> None:
    code = boxed.lane.folder / "code"
    code.mkdir()
    (code / "train.py").write_text("import os, sys; print('python', sys.prefix, os.getcwd())\n")
    done = boxed.lane.air(
        "run",
        "--watch",
        "-f",
        boxed.workload(
            'echo "path $PATH"; echo "quoted $ODD"; echo 1 > "$AIR_CHECKPOINT_DIR/step"\n'
            'python3 train.py; touch "$RAY_TMPDIR/x"; cat /proc/1/comm; cat "$HYPERPARAMETERS_PATH"',
            code_source={"root_path": str(code)},
            env_variables={"ODD": 'it\'s\n"two" lines $HOME'},
            parameters={"lr": 0.1},
        ),
    )
    assert done.returncode == 0, done.stderr
    run = boxed.lane.client.get("@last")
    lines = done.stdout.splitlines()
    assert "path /usr/bin" in lines
    assert 'quoted it\'s\n"two" lines $HOME' in done.stdout
    assert any(line.startswith("python /usr ") and line.endswith("/code/0/code") for line in lines)
    assert lines[-2:] == ["bash", "lr: 0.1"]
    assert (run.view().paths.checkpoints / "step").read_text() == "1\n"
    assert boxed.left(run.id) == []
    assert not Path(f"/tmp/air-{run.id}-0-0.box").exists()


def test_the_exit_code_is_the_commands_own(boxed: BoxedLane) -> None:
    # 125 to 127 are also what an engine says when it could not start a container.
    for code in (3, 125, 126, 127, 137):
        view = ended(boxed.lane.submit(boxed.workload(f"exit {code}")))
        assert view.cause is not None
        assert (view.state, view.cause.kind, view.cause.exit_code) == ("FAILED", "exit_code", code)


def test_secrets_reach_the_command_and_nothing_else(boxed: BoxedLane) -> None:
    value = "hunter2\nwith 'two' lines"
    boxed.lane.air("secrets", "set", "hub/token", input=value)
    wait = 'until [ -e "$AIR_CHECKPOINT_DIR/go" ]; do sleep 0.05; done'
    command = f'echo "length ${{#TOKEN}}"; echo "the token is $TOKEN"; {wait}'
    run = boxed.lane.submit(boxed.workload(command, secrets={"TOKEN": "hub/token"}))
    log = run.view().paths.log(attempt=0, node=0)
    wait_until(lambda: log.exists() and "the token is" in log.read_text(), within_s=30, what="the command runs")
    inspected = boxed.engine("inspect", f"air-{run.id}-0-0")
    assert "hunter2" not in inspected
    assert "hunter2" not in _command_lines()
    (run.view().paths.checkpoints / "go").touch()
    assert ended(run).state == "SUCCESS"
    assert f"length {len(value)}" in log.read_text()
    assert "hunter2" not in log.read_text()


def test_nodes_of_one_run_have_a_container_each(boxed: BoxedLane) -> None:
    run = boxed.lane.submit(boxed.workload('echo "node $NODE_RANK of $NUM_NODES at $MASTER_ADDR"', nodes=2))
    assert ended(run).state == "SUCCESS"
    for node in (0, 1):
        assert f"node {node} of 2 at 127.0.0.1" in run.view().paths.log(attempt=0, node=node).read_text()


def test_mounts_and_options_of_the_profile_are_used(boxed: BoxedLane, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "x").write_text("from the node\n")
    boxed.profile(f'mounts = ["{data}:/inside:ro"]', 'container_args = ["--env", "FROM_THE_PROFILE=1"]')
    run = boxed.lane.submit(
        boxed.workload('cat /inside/x; echo "profile $FROM_THE_PROFILE"; touch /inside/y || echo "read-only"')
    )
    assert ended(run).state == "SUCCESS"
    log = run.view().paths.log(attempt=0, node=0).read_text()
    assert all(words in log for words in ("from the node", "profile 1", "read-only"))


def test_a_mount_that_is_not_there_is_a_clear_error(boxed: BoxedLane) -> None:
    boxed.profile('mounts = ["/not/there"]')
    view = ended(boxed.lane.submit(boxed.workload("true")))
    assert view.cause is not None
    assert view.cause.kind == "setup"
    assert "could not start a container" in view.cause.summary
    assert "/not/there" in view.cause.summary
    assert len(view.attempts) == 1


def test_what_the_command_leaves_ends_with_it(boxed: BoxedLane) -> None:
    run = boxed.lane.submit(boxed.workload("setsid sleep 1000 & (sleep 0.1; echo last words) & exit 0"))
    assert ended(run).state == "SUCCESS"
    assert "last words" in run.view().paths.log(attempt=0, node=0).read_text()
    assert boxed.left(run.id) == []


def test_ctrl_c_inside_works_as_outside(boxed: BoxedLane) -> None:
    program = (
        "import os, signal\ntry:\n  os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt:\n  print('caught')"
    )
    run = boxed.lane.submit(boxed.workload(f'python3 -c "{program}"'))
    assert ended(run).state == "SUCCESS"
    assert "caught" in run.view().paths.log(attempt=0, node=0).read_text()


def test_the_screens_show_the_image(boxed: BoxedLane) -> None:
    workload = boxed.workload("true")
    plan = json.loads(boxed.lane.air("run", "-f", workload, "--dry-run", "--json").stdout)["data"]
    assert plan["environment"] is None
    assert plan["image"]["digest"].startswith("sha256:")
    page = boxed.lane.air("run", "-f", workload, "--dry-run").stderr
    assert f"container             {boxed.engine.runtime}" in page
    run = boxed.lane.submit(workload)
    ended(run)
    assert f"  in {boxed.engine.runtime}" in boxed.lane.air("get", "run", run.id).stdout
    assert run.view().record.image is not None


def _command_lines() -> str:
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                lines.append((entry / "cmdline").read_bytes().decode(errors="replace"))
    return "\n".join(lines)
