"""What a cluster runs on, against what a workload asks for. Answers are those of Ray 2.60."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from airlane.backends.ray.versions import (
    METADATA,
    VERSION,
    ClusterVersions,
    bases_of,
    check_base,
    check_environment,
    read_versions,
)
from airlane.cluster.rest import Dashboard
from airlane.environment import bases
from airlane.errors import ConfigError, RayAnswerError, RayDeniedError
from airlane.spec.bases import BASES, RAY_OF_BASES
from airlane.store.records import EnvironmentRecord, ImageRecord, Limits, RunRecord

URL = "http://10.0.0.1:8265"
RAY = {"version": "4", "ray_version": "2.60.0", "ray_commit": "b7f4259", "session_name": "session_1"}
PYTHON = {"result": True, "msg": "", "data": {"rayVersion": "2.60.0", "pythonVersion": "3.11.7"}}
CLUSTER = ClusterVersions("2.60.0", "3.11.7")


class Answering(Dashboard):
    """A dashboard that says what it was made with, by path; an exception is raised."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(URL)
        self._answers = {VERSION: answers.get("ray", RAY), METADATA: answers.get("python", PYTHON)}

    def get_json(self, path: str) -> Any:
        answer = self._answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer


def run(base: str, *dependencies: str, python: str = "3.11") -> RunRecord:
    return RunRecord(
        id="7k2m9q4d",
        experiment_name="ray",
        user="ada",
        submitted_at=0.0,
        workload_file="/w.yaml",
        backend="ray",
        profile="cluster",
        nodes=1,
        accelerators=1,
        accelerators_per_node=1,
        accelerator_type="CPU_1xCORE",
        simulate=False,
        limits=Limits(0, None, 30.0, 300.0),
        environment=EnvironmentRecord(base, dependencies, python, None),
    )


def python_of(version: str) -> dict[str, Any]:
    return {**PYTHON, "data": {"rayVersion": "2.60.0", "pythonVersion": version}}


def refused(record: RunRecord, **answers: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        check_environment(record, Answering(**answers))
    return caught.value


def test_both_versions_are_read() -> None:
    assert read_versions(Answering()) == CLUSTER


@pytest.mark.parametrize(
    "python",
    [RayAnswerError("not found", status=404), {"data": None}, {"data": {}}, {"data": {"pythonVersion": None}}, []],
)
def test_a_cluster_that_does_not_tell_its_python_is_taken_all_the_same(python: Any) -> None:
    versions = read_versions(Answering(python=python))
    assert versions == ClusterVersions("2.60.0", None)
    check_base("5", "3.12", versions, URL)


def test_a_refused_question_is_no_missing_answer() -> None:
    with pytest.raises(RayDeniedError):
        read_versions(Answering(python=RayDeniedError("no")))
    with pytest.raises(RayAnswerError):
        read_versions(Answering(python=RayAnswerError("broken", status=500)))


@pytest.mark.parametrize("said", [[], {}, {"ray_version": None}, RayAnswerError("not found", status=404)])
def test_what_is_no_dashboard_is_told_so(said: Any) -> None:
    with pytest.raises(RayAnswerError, match=f"{URL} is no Ray dashboard") as caught:
        read_versions(Answering(ray=said))
    assert "8265" in str(caught.value.hint)


@pytest.mark.parametrize("base", BASES)
def test_every_base_is_used_on_a_cluster_that_matches_it(base: str) -> None:
    assert check_environment(run(base), Answering()) == "the cluster's Python 3.11.7 with Ray 2.60.0"


def test_packages_to_be_added_are_counted() -> None:
    said = check_environment(run("AI5", "fsspec>=2024.6.1", "--index-url https://pypi.org/simple"), Answering())
    assert said == "the cluster's Python 3.11.7 with Ray 2.60.0, and 1 package that Ray installs"


def test_a_dependency_that_stays_here_is_refused_with_the_plan() -> None:
    assert "dependencies[0]: ./mine.whl" in refused(run("AI5", "./mine.whl")).message


@pytest.mark.parametrize("version", ["2.59.1", "2.61.0", "3.0.0.dev0"])
def test_a_base_with_another_ray_is_refused_naming_both(version: str) -> None:
    error = refused(run("AI5"), ray={**RAY, "ray_version": version})
    assert error.message == (f"environment.version: AI5 has Ray 2.60, and the Ray cluster at {URL} has {version}")
    assert "version: host" in str(error.hint)


def test_a_base_without_ray_does_not_care_which_ray_there_is() -> None:
    for base in ("4", "5", "6", "host"):
        check_environment(run(base), Answering(ray={**RAY, "ray_version": "2.40.0"}))


def test_a_patch_release_is_no_other_version() -> None:
    check_environment(run("AI5"), Answering(ray={**RAY, "ray_version": "2.60.3"}, python=python_of("3.11.15")))


@pytest.mark.parametrize("base", ["4", "AI6"])
def test_another_python_is_refused_naming_both(base: str) -> None:
    error = refused(run(base, python="3.12"))
    assert error.message == (
        f"environment.version: {base} is planned for Python 3.12, which runs air, "
        f"and the Ray cluster at {URL} has 3.11.7"
    )
    assert str(error.hint).startswith("install Airlane with Python 3.11;")


def test_host_is_whatever_python_the_cluster_has() -> None:
    assert check_environment(run("host", python="3.12"), Answering()) == "the cluster's Python 3.11.7 with Ray 2.60.0"


@pytest.mark.parametrize("base", ["host", "5"])
def test_a_python_that_is_too_old_for_a_supervisor_is_refused_for_every_base(base: str) -> None:
    error = refused(run(base, python="3.10"), python=python_of("3.10.14"))
    assert error.message == f"the Ray cluster at {URL} has Python 3.10.14; a run on it needs 3.11 or later"
    check_environment(run(base, python="3.13"), Answering(python=python_of("3.13.0")))


def test_an_image_is_refused_before_the_cluster_is_asked() -> None:
    error = refused(
        replace(run("host"), image=ImageRecord("ghcr.io/me/train:1", False, None)), ray=AssertionError("asked")
    )
    assert "docker_image" in error.message
    assert error.hint


def test_what_is_told_of_the_bases_is_what_they_are_locked_to() -> None:
    locked = {}
    for base in bases.BASES.values():
        pins = {pin.version for pin in (base.pins() if base.packaged else ()) if pin.name == "ray" and pin.version}
        if pins and not base.internal:
            (version,) = pins
            locked[base.name] = ".".join(re.findall(r"\d+", version)[:2])
    assert locked == RAY_OF_BASES


def test_the_bases_of_a_cluster_are_those_with_its_ray() -> None:
    assert bases_of(CLUSTER) == ("AI5", "AI6")
    assert bases_of(ClusterVersions("2.55.0", None)) == ()
