"""A Ray cluster that others have started: finding it, asking what it has, and what `air doctor` says. Real Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from airlane.backends.base import Compute, Finding
from airlane.backends.ray.asking import ask_node
from airlane.backends.ray.capacity import check, read_nodes
from airlane.backends.ray.doctor import doctor
from airlane.backends.ray.options import RayOptions
from airlane.backends.ray.versions import bases_of, read_versions
from airlane.cluster.find import find_cluster
from airlane.cluster.jobs import Jobs, JobState
from airlane.cluster.rest import Dashboard
from airlane.errors import CapacityError, ConfigError, RayDeniedError, RayUnreachableError
from airlane.store.paths import Home
from ray_lab import RayLab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AIR = Path(sys.executable).with_name("air")


def reach(lab: RayLab) -> Dashboard:
    """As a program that has the variables of the cluster."""
    cluster = find_cluster(address=None, token_file=None, env=lab.env)
    assert cluster.where == "RAY_API_SERVER_ADDRESS"
    return Dashboard(cluster.url, cluster.token)


def findings(options: RayOptions, home: Path, env: Mapping[str, str] | None = None) -> dict[str, Finding]:
    return {found.name: found for found in doctor(options, Home(home), {"HOME": str(home), **(env or {})})}


def test_rays_own_variables_lead_to_the_cluster_and_its_versions(ray_lab: RayLab) -> None:
    versions = read_versions(reach(ray_lab))
    assert versions.ray.startswith("2.60.")
    assert versions.python == ".".join(map(str, sys.version_info[:3]))
    assert bases_of(versions) == ("AI5", "AI6")


def test_the_gcs_is_not_taken_for_a_dashboard(ray_lab: RayLab) -> None:
    with pytest.raises(ConfigError, match="the GCS"):
        find_cluster(address=None, token_file=None, env={"RAY_ADDRESS": ray_lab.address})
    with pytest.raises(ConfigError, match="client server"):
        find_cluster(address=ray_lab.client_address, token_file=None, env={})
    # Its port was chosen, so that nothing tells until it is asked.
    cluster = find_cluster(address=ray_lab.address, token_file=None, env={})
    with pytest.raises(RayUnreachableError, match="does not speak HTTP") as caught:
        read_versions(Dashboard(cluster.url))
    assert "8265" in str(caught.value.hint)


def test_a_cluster_with_a_token_refuses_who_has_none_or_another(ray_lab: RayLab) -> None:
    for token in (None, "0" * 64):
        with pytest.raises(RayDeniedError):
            read_versions(Dashboard(ray_lab.url, token))


def test_what_fits_is_told_and_what_can_never_fit_is_refused_within_two_seconds(ray_lab: RayLab) -> None:
    options = RayOptions(storage=Path("/fsx"))
    before = time.monotonic()
    dashboard = reach(ray_lab)
    (line,) = check(Compute(3, 2, "GPU_2xANY"), read_nodes(dashboard), options, url=ray_lab.url)
    assert line == f"3 nodes with 2 GPUs, 2 CPUs; the Ray cluster at {ray_lab.url} has 3 like that"
    refused = {
        Compute(4, 2, "GPU_2xANY"): "has 3 nodes with 2 GPUs, 2 CPUs (asked for: 4)",
        Compute(1, 8, "GPU_8xANY"): "has no node with 8 GPUs, 8 CPUs (asked for: 1)",
        Compute(1, 2, "GPU_8xH100"): "has no node with 2 × H100, 2 CPUs (asked for: 1)",
        Compute(1, 3, "CPU_3xCORE"): "has no node with 3 CPUs (asked for: 1)",
    }
    for compute, words in refused.items():
        with pytest.raises(CapacityError) as caught:
            check(compute, read_nodes(dashboard), options, url=ray_lab.url)
        assert caught.value.message == f"The Ray cluster at {ray_lab.url} {words}"
        assert "2 GPUs, 2 CPUs" in str(caught.value.hint)
    assert time.monotonic() - before < 2


def test_a_program_of_ours_runs_on_a_node_and_leaves_a_job_that_succeeded(ray_lab: RayLab) -> None:
    dashboard = reach(ray_lab)
    host, said = ask_node(dashboard, "airlane.backends.ray.node_facts")
    assert host == os.uname().nodename
    facts = json.loads(said)
    assert Path(facts["packages"], "ray").is_dir()
    assert facts["virtual"] is True
    assert facts["storage"] is None
    ours = [job for job in Jobs(dashboard).list() if job.metadata.get("name") == "air doctor"]
    assert {job.state for job in ours} == {JobState.SUCCEEDED}


def test_the_doctor_tells_a_token_that_is_missing_from_one_that_is_wrong(ray_lab: RayLab, tmp_path: Path) -> None:
    options = RayOptions(address=ray_lab.url)
    missing = findings(options, tmp_path)
    assert [found.ok for found in missing.values()] == [True, False]
    assert missing["token"].detail == "the cluster wants one, and none is given"
    wrong = findings(options, tmp_path, {"RAY_AUTH_TOKEN": "0" * 64})
    assert wrong["token"].detail == "the cluster does not accept the one of RAY_AUTH_TOKEN"


@pytest.fixture
def configured(ray_lab: RayLab, tmp_path: Path) -> dict[str, str]:
    """The environment of an `air` whose profile is the cluster, and one whose profile is a cluster that is away."""
    storage = tmp_path / "shared ünïcode"
    config = tmp_path / "config.toml"
    ray = [f'address = "{ray_lab.url}"', f'token_file = "{ray_lab.token_file}"', f'storage = "{storage}"']
    common = ['backend = "ray"', 'tracking_uri = "none"']
    away = ['address = "http://127.0.0.1:1"']
    config.write_text("\n".join(["[profiles.ray]", *common, *ray, "[profiles.away]", *common, *away, ""]))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIR_", "RAY_", "MLFLOW_"))}
    return {**kept, "AIR_HOME": str(tmp_path / "home"), "AIR_CONFIG": str(config)}


def examined(env: Mapping[str, str], profile: str) -> tuple[int, dict[str, dict[str, object]]]:
    line = [str(AIR), "doctor", "-p", profile, "--json"]
    done = subprocess.run(line, check=False, env=dict(env), capture_output=True, text=True, timeout=120)
    return done.returncode, {found["name"]: found for found in json.loads(done.stdout)["data"]["checks"]}


def test_air_doctor_looks_at_the_cluster_of_a_profile(configured: dict[str, str], ray_lab: RayLab) -> None:
    exit_code, found = examined(configured, "ray")
    assert exit_code == 0, found
    assert str(found["Ray cluster"]["detail"]).startswith(f"{ray_lab.url} (address) answered in ")
    assert found["nodes"]["detail"] == "3: 3 nodes with 2 GPUs, 2 CPUs"
    assert found["GPUs"]["detail"] == "6 × GPU of an unknown model"
    assert found["storage"]["ok"] is True


def test_air_doctor_goes_on_when_the_cluster_is_away(configured: dict[str, str]) -> None:
    exit_code, found = examined(configured, "away")
    assert exit_code == 1
    assert found["Ray cluster"]["detail"] == "http://127.0.0.1:1 refuses the connection"
    assert found["uv"]["ok"] is True


def test_a_cluster_without_a_token_is_used_and_the_doctor_warns_of_it(ray_python: Path, tmp_path: Path) -> None:
    with RayLab(tmp_path, ray_python, nodes=1, token=False) as lab:
        found = findings(RayOptions(address=lab.url), tmp_path)
        assert found["token"].ok is None
        assert "whoever reaches this address can run programs there" in found["token"].detail
        assert found["a job"].ok is True
        assert found["nodes"].detail == "1: 1 node with 2 GPUs, 2 CPUs"
        # A token that nobody asks for does no harm.
        assert read_versions(Dashboard(lab.url, "0" * 64)).ray.startswith("2.60.")
