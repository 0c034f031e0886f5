"""Jobs of a cluster from `air ray up`, which needs no address, no token and no name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ray_fixtures import share_environment

from .conftest import Desk


@pytest.mark.slow
def test_the_only_cluster_of_ours_needs_no_name_and_any_is_found_by_its_own(
    tmp_path: Path, ray_environment: Path
) -> None:
    desk = Desk(tmp_path, {"HOME": str(tmp_path)})
    desk.config.write_text('[profiles.local]\ntracking_uri = "none"\n')
    (tmp_path / "home").mkdir(mode=0o700)
    share_environment(ray_environment, tmp_path / "home")
    assert desk.submit("--", "echo", "hi").stderr.startswith("nothing says which Ray cluster is meant\n")
    up = desk.air("ray", "up", "--cpus-per-node", "1", "--name", "trainers", "--json", timeout_s=600)
    try:
        assert json.loads(up.stdout)["data"]["ready"], up.stdout + up.stderr
        only = desk.submit("--", "echo", "hi")
        assert (only.returncode, only.stdout) == (0, "hi\n"), only.stderr
        named = desk.submit("--cluster", "trainers", "--", "bash", "-c", "exit 7")
        assert (named.returncode, named.stdout) == (7, ""), named.stderr
        variables = desk.data("ray", "env")["variables"]
        elsewhere = Desk(tmp_path / "other", {"HOME": str(tmp_path), **variables})
        elsewhere.folder.mkdir()
        elsewhere.config.write_text("")
        assert [job["exit_code"] for job in elsewhere.data("ray", "job", "list")["jobs"]] == [7, 0]
    finally:
        desk.air("ray", "down", "--all", "--yes")
    gone = desk.air("ray", "job", "list", "--cluster", "trainers")
    assert (gone.returncode, gone.stdout) == (1, "")
