"""Secrets: found by the command, and nowhere else."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from e2e.launch.conftest import AgentHost

TOKEN = "hf_T0kenOf\"Some'$Length"  # noqa: S105 - made up
KEY = "-----BEGIN KEY-----\nbGluZSBvbmU\nbGluZSB0d28\n-----END KEY-----\n"


def test_secret_values_reach_the_command_and_no_disk(host: AgentHost) -> None:
    secrets = host.secrets({"TOKEN": TOKEN, "KEY": KEY})
    command = (
        'test ${#TOKEN} = 23; echo "token=$TOKEN."; printf "%s" "${TOKEN:0:9}"; sleep 0.2; echo "${TOKEN:9}"\n'
        'echo "$KEY"; printf "%s" "$TOKEN" | base64; tr "\\0" "\\n" < /proc/$$/cmdline; echo done; touch up; sleep 600'
    )
    agent = host.start(command, secrets_files=(secrets,))
    agent.said("done")
    lines = [Path(path, "cmdline") for path in Path("/proc").glob("[0-9]*")]
    assert not any(TOKEN.encode() in _read(path) for path in lines)
    agent.ask("kill")
    agent.end()
    for path in host.folder.rglob("*"):
        if path.is_file() and path != Path(secrets):
            content = path.read_bytes()
            for hidden in (TOKEN, "bGluZSBvbmU", "bGluZSB0d28", base64.b64encode(TOKEN.encode()).decode()[:-4]):
                assert hidden.encode() not in content, path
    assert agent.log.startswith("token=***.\n***\n")
    assert agent.record["log_bytes_lost"] == 0


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_secrets_that_others_may_read_are_refused(host: AgentHost) -> None:
    path = host.secrets({"TOKEN": TOKEN})
    Path(path).chmod(0o644)
    record = host.run("true", secrets_files=(path,)).record
    assert "0600" in record["error"]


def test_the_values_of_every_file_are_hidden_and_the_last_file_wins(host: AgentHost) -> None:
    files: list[str] = []
    for values in ({"TOKEN": "first-token", "USER_NAME": "from-the-run"}, {"USER_NAME": "from-tracking"}):
        written = Path(host.secrets(values))
        files.append(str(written.rename(written.with_name(f"secrets-{len(files)}.json"))))
    agent = host.run('test "$USER_NAME" = from-track""ing; echo "$TOKEN $USER_NAME"', secrets_files=tuple(files))
    assert agent.log == "*** ***\n"


def test_a_beginning_of_a_secret_is_given_out_when_nothing_follows(host: AgentHost) -> None:
    agent = host.run('printf "%s" hf_T0ken', secrets_files=(host.secrets({"TOKEN": TOKEN}),))
    assert agent.log == "hf_T0ken"


def test_masking_is_line_exact_at_hundreds_of_megabytes(user_host: AgentHost) -> None:
    lines = 300
    block = "".join(f"{number:9d} {'x' * 89}\n" for number in range(lines)).encode()
    blocks = 10_000
    program = (
        "import os\n"
        f"block = b''.join(b'%9d %s\\n' % (number, b'x' * 89) for number in range({lines}))\n"
        f"for _ in range({blocks}):\n"
        "    done = 0\n"
        "    while done < len(block):\n"
        "        done += os.write(1, block[done:])\n"
    )
    values = {"A": TOKEN, "B": "another-secret-value", "C": "0123456789abcdef0123456789abcdef"}
    started_at = time.monotonic()
    agent = user_host.run(f"python3 - <<'E'\n{program}E\n", secrets_files=(user_host.secrets(values),))
    size_bytes = len(block) * blocks
    print(f"{size_bytes / (time.monotonic() - started_at) / 1e6:.0f} MB/s")
    with Path(agent.order.log_file).open("rb") as log:
        assert all(log.read(len(block)) == block for _ in range(blocks))
        assert log.read() == b""


def test_what_holds_the_output_open_outside_does_not_hold_the_end(user_host: AgentHost) -> None:
    """A process that is not the run's (here: the test) has the pipe open: the agent ends all the same."""
    agent = user_host.start("echo ready; sleep 600", secrets_files=(user_host.secrets({"A": "abcdefgh"}),))
    agent.said("ready")
    pipe = Path(f"/proc/{agent.record['pid']}/fd/1")
    with pipe.open("wb", buffering=0) as held:
        agent.ask("kill")
        agent.end()
        assert held.fileno() > 0
