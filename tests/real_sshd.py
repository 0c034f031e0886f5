"""A real sshd of this user on this machine, and the configuration with which ssh reaches it as the host "there"."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airlane.api.tunnel import free_port


@contextmanager
def real_sshd(folder: Path) -> Iterator[Path]:
    """The file for `ssh -F FILE there`; sshd is there for as long as this is entered. Needs root."""
    program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    if program is None or os.geteuid() != 0:
        pytest.skip("needs root and sshd")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    port = free_port(0)
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "PidFile": folder / "pid",
        "AuthorizedKeysFile": folder / "user.pub",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "AllowTcpForwarding": "yes",
    }
    (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    ssh_config = folder / "ssh_config"
    ssh_config.write_text(
        f"Host there\n HostName 127.0.0.1\n Port {port}\n User root\n IdentityFile {folder / 'user'}\n"
        " IdentitiesOnly yes\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    with subprocess.Popen([program, "-D", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL) as server:
        try:
            while not answers(port):
                assert server.poll() is None
                time.sleep(0.01)
            yield ssh_config
        finally:
            server.terminate()


def answers(port: int) -> bool:
    """Whether somebody listens at a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
