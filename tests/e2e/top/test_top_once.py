"""One frame of a real cluster with a token, found in every way, and through ssh to the dashboard's port alone."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from airlane.api.tunnel import free_port
from ray_lab import RayLab
from real_sshd import answers, real_sshd

from .conftest import Desk

pytestmark = pytest.mark.slow


@pytest.fixture
def opened(desk: Desk, ray_lab: RayLab) -> Desk:
    """With the token in Ray's own variable."""
    return desk.with_variables(RAY_AUTH_TOKEN_PATH=str(ray_lab.token_file))


def calm_round(desk: Desk, *words: str) -> dict[str, Any]:
    """A round in which every question is answered: a cluster that has just begun may be too busy for one."""
    deadline = time.monotonic() + 120
    while True:
        data = desk.round(*words)
        troubles = {name: panel["trouble"] for name, panel in data.items() if isinstance(panel, dict)}
        if not any(troubles.values()):
            return data
        assert time.monotonic() < deadline, troubles


def names(data: dict[str, dict[str, list[dict[str, str]]]]) -> list[str]:
    return sorted(node["name"] for node in data["nodes"]["data"])


LAB = ["lab-0", "lab-1", "lab-2"]


def test_one_frame_by_address_is_text_and_json(opened: Desk, ray_lab: RayLab) -> None:
    data = calm_round(opened, "--address", ray_lab.url)
    assert (names(data), data["ray_version"], data["answers"]) == (LAB, "2.60.0", True)
    done = opened.top("--once", "--address", ray_lab.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 120
    for name in LAB:
        assert f"\n{name} " in done.stdout


def test_a_cluster_is_found_by_profile_and_by_rays_own_variables(desk: Desk, ray_lab: RayLab) -> None:
    desk.config.write_text(
        f'[profiles.lab]\nbackend = "ray"\naddress = "{ray_lab.url}"\ntoken_file = "{ray_lab.token_file}"\n'
    )
    assert names(desk.round("-p", "lab")) == LAB
    assert names(desk.with_variables(**ray_lab.env).round()) == LAB


def test_ssh_to_the_dashboard_port_alone_suffices(opened: Desk, ray_lab: RayLab, tmp_path: Path) -> None:
    port, target = free_port(0), ray_lab.url.removeprefix("http://")
    with real_sshd(tmp_path) as config:
        line = ["ssh", "-F", str(config), "-N", "-L", f"127.0.0.1:{port}:{target}", "there"]
        with subprocess.Popen(line, stdin=subprocess.DEVNULL) as tunnel:
            try:
                while not answers(port):
                    assert tunnel.poll() is None
                    time.sleep(0.02)
                through = calm_round(opened, "--address", f"http://127.0.0.1:{port}")
            finally:
                tunnel.terminate()
    assert names(through) == LAB
    assert all(node["measures"]["memory_total"] and node["measures"]["cores"] for node in through["nodes"]["data"])


def test_without_the_token_and_with_another_it_says_where_one_comes_from(desk: Desk, ray_lab: RayLab) -> None:
    done = desk.top("--once", "--address", ray_lab.url)
    assert done.returncode == 1
    assert done.stderr.startswith(f"the Ray cluster at {ray_lab.url} wants a token\n  export RAY_AUTH_TOKEN_PATH=")
    done = desk.with_variables(RAY_AUTH_TOKEN="0" * 64).top("--once", "--address", ray_lab.url)
    assert "does not accept this token" in done.stderr
    assert ray_lab.token not in done.stderr


def test_the_screen_of_a_real_cluster_appears_and_goes(opened: Desk, ray_lab: RayLab) -> None:
    shown = opened.terminal("--address", ray_lab.url)
    shown.until("lab-2")
    assert "3 nodes" in shown.text
    shown.type("q")
    assert shown.end() == 0
    assert shown.left_behind() == []
