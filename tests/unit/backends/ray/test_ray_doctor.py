"""What `air doctor` finds on a Ray cluster, whose answers are made for each test."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airlane.backends.base import Finding
from airlane.backends.ray import doctor as doctor_module
from airlane.backends.ray.doctor import MODE, doctor
from airlane.backends.ray.options import RayOptions
from airlane.backends.ray.versions import METADATA, VERSION
from airlane.cluster.rest import Dashboard
from airlane.cluster.status import NODES
from airlane.errors import BackendError, RayAnswerError, RayDeniedError, RayUnreachableError
from airlane.store.paths import Home

URL = "http://127.0.0.1:8265"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}.7"
FACTS = {"packages": "/env/lib", "virtual": True, "uv": True, "pip": False, "virtualenv": True, "storage": None}
NOT_FOUND = RayAnswerError("not found", status=404)


def row(name: str, *, state: str = "ALIVE", why: str | None = None, **resources: float) -> dict[str, Any]:
    return {
        "node_id": f"id-{name}",
        "node_ip": "10.0.0.1",
        "node_name": name,
        "is_head_node": name == "head",
        "state": state,
        "state_message": why,
        "resources_total": {name.replace("_of_", ":"): amount for name, amount in resources.items()},
    }


HEAD = row("head", CPU=8.0)
H100 = row("gpu1", CPU=64.0, GPU=8.0, accelerator_type_of_H100=1.0)


class Cluster:
    """The answers of a cluster, by path, and what a job on it prints; an exception is raised."""

    def __init__(self, *rows: dict[str, Any], protected: bool = True, **changed: Any) -> None:
        self.protected = protected
        self.answers: dict[str, Any] = {
            MODE: {"authentication_mode": "token" if protected else "disabled"},
            VERSION: {"ray_version": "2.60.0"},
            METADATA: {"data": {"pythonVersion": PYTHON}},
            NODES: {"data": {"result": {"result": list(rows or (HEAD, H100))}}},
        }
        self.answers |= changed.pop("answers", {})
        self.facts: Any = {**FACTS, **changed}
        self.asked: list[tuple[str, ...]] = []

    def answer(self, path: str, given: str | None) -> Any:
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        if path != MODE and self.protected and given != "right":
            raise RayDeniedError("no", hint="token_file in the profile")
        return answer

    def ask(self, module: str, *arguments: str) -> tuple[str, str]:
        self.asked.append((module, *arguments))
        if isinstance(self.facts, Exception):
            raise self.facts
        return "gpu1", self.facts if isinstance(self.facts, str) else json.dumps(self.facts) + "\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "a 'home' with ünïcode")


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("right\n")
    return file


def findings(
    cluster: Cluster,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    *,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> dict[str, Finding]:
    class Made(Dashboard):
        def __init__(self, url: str, token: str | None = None, *, timeout_s: float = 10.0) -> None:
            assert timeout_s <= 5
            super().__init__(url, token)
            self._given = token

        def get_json(self, path: str) -> Any:
            return cluster.answer(path, self._given)

    monkeypatch.setattr(doctor_module, "Dashboard", Made)
    monkeypatch.setattr(doctor_module, "ask_node", lambda _, *words: cluster.ask(*words))
    read = replace(RayOptions(address=URL), **options)
    found = list(doctor(read, home, {"HOME": str(home.root), **(env or {})}))
    assert all(finding.hint for finding in found if finding.ok is False), found
    return {finding.name: finding for finding in found}


def test_a_cluster_that_works_is_told_so(home: Home, token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(storage="")
    found = findings(cluster, home, monkeypatch, token_file=token_file, storage=Path("/fsx"))
    assert {name: finding.ok for name, finding in found.items()} == {
        "Ray cluster": True,
        "token": True,
        "versions": True,
        "nodes": True,
        "GPUs": True,
        "a job": True,
        "dependencies": True,
        "storage": True,
    }
    assert found["Ray cluster"].detail.startswith(f"{URL} (address) answered in ")
    assert found["token"].detail == f"the one of token_file {token_file} is accepted"
    assert found["versions"].detail == f"Python {PYTHON} with Ray 2.60.0: environment.version 4, 5, 6, AI5, AI6, host"
    assert found["nodes"].detail == "2: 1 node with 8 CPUs; 1 node with 8 × H100, 64 CPUs"
    assert found["GPUs"].detail == "8 × H100"
    assert cluster.asked == [("airlane.backends.ray.node_facts", "/fsx")]


@pytest.mark.parametrize(
    "error",
    [
        RayUnreachableError("it refuses the connection", refused=True, hint="is it running?"),
        RayUnreachableError("silent"),
    ],
)
def test_a_cluster_that_is_away_ends_the_checks_and_nothing_else(
    error: Exception, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = findings(Cluster(answers={MODE: error}), home, monkeypatch)
    assert list(found) == ["Ray cluster"]
    assert found["Ray cluster"].ok is False


def test_an_address_that_nobody_gave_or_a_token_that_cannot_be_read_are_findings(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "nothing says which" in findings(Cluster(), home, monkeypatch, address=None)["Ray cluster"].detail
    gone = findings(Cluster(), home, monkeypatch, token_file=Path("/no/such/token"))
    assert "/no/such/token" in gone["Ray cluster"].detail
    named = findings(Cluster(), home, monkeypatch, address="research")
    assert "no Ray cluster 'research'" in named["Ray cluster"].detail


def test_a_token_that_is_missing_and_one_that_is_wrong_are_told_apart(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = findings(Cluster(), home, monkeypatch)
    assert list(missing) == ["Ray cluster", "token"]
    assert missing["token"].detail == "the cluster wants one, and none is given"
    wrong = findings(Cluster(), home, monkeypatch, env={"RAY_AUTH_TOKEN": "wrong"})
    assert wrong["token"].detail == "the cluster does not accept the one of RAY_AUTH_TOKEN"
    assert wrong["token"].ok is False
    assert "wrong" not in f"{[f.detail + str(f.hint) for f in wrong.values()]}"


@pytest.mark.parametrize("mode", [{"authentication_mode": "disabled"}, NOT_FOUND])
def test_a_cluster_without_tokens_is_open_to_everybody(mode: Any, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings(Cluster(protected=False, answers={MODE: mode}), home, monkeypatch)
    assert found["token"].ok is None
    assert "whoever reaches this address" in found["token"].detail
    assert "storage" in found


def test_what_a_token_is_exposed_to_is_said(home: Home, token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token_file.chmod(0o644)
    found = findings(Cluster(), home, monkeypatch, token_file=token_file, address="http://10.0.0.9:8265")
    assert found["token file"].hint == f"chmod 600 {token_file}"
    assert found["encryption"].ok is None
    assert "ssh -L 8265:localhost:8265" in str(found["encryption"].hint)
    safe = findings(Cluster(), home, monkeypatch, env={"RAY_AUTH_TOKEN": "right"}, address="https://ray.lab.example")
    assert {"token file", "encryption"} & set(safe) == set()


def test_versions_are_compared_with_every_base(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings(Cluster(protected=False, answers={VERSION: {"ray_version": "2.55.1"}}), home, monkeypatch)
    assert found["versions"].ok is None
    assert found["versions"].detail == f"Python {PYTHON} with Ray 2.55.1: environment.version 4, 5, 6, host"
    other = {"data": {"pythonVersion": "3.99.0"}}
    found = findings(Cluster(protected=False, answers={METADATA: other}), home, monkeypatch)
    assert found["versions"].detail.endswith("environment.version host")
    assert "install Airlane with Python 3.99" in str(found["versions"].hint)
    found = findings(
        Cluster(protected=False, answers={METADATA: {"data": {"pythonVersion": "3.9.1"}}}), home, monkeypatch
    )
    assert found["versions"].ok is False
    found = findings(Cluster(protected=False, answers={VERSION: NOT_FOUND}), home, monkeypatch)
    assert list(found) == ["Ray cluster", "versions"]
    assert "is no Ray dashboard" in found["versions"].detail


def test_nodes_are_told_with_their_gpus_and_the_dead_with_their_reason(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        H100,
        {**H100, "node_id": "2"},
        row("old", CPU=4.0, GPU=2.0),
        row("gone", state="DEAD", why="health check failed", CPU=4.0),
        row("gone2", state="DEAD"),
    ]
    found = findings(Cluster(*rows, protected=False), home, monkeypatch)
    assert found["nodes"].detail == "3: 2 nodes with 8 × H100, 64 CPUs; 1 node with 2 GPUs, 4 CPUs"
    assert found["GPUs"].detail == "16 × H100, 2 × GPU of an unknown model"
    assert "GPU_<n>xANY" in str(found["GPUs"].hint)
    assert found["dead nodes"].detail == "2: gone (health check failed), gone2 (no reason given)"
    assert found["dead nodes"].ok is None


def test_a_cluster_without_gpus_or_without_nodes_is_told_so(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(Cluster(HEAD, protected=False), home, monkeypatch)["GPUs"].detail == "none"
    found = findings(Cluster(row("head", state="DEAD", CPU=1.0), protected=False), home, monkeypatch)
    assert found["nodes"].ok is False
    assert "GPUs" not in found
    found = findings(Cluster(protected=False, answers={NODES: {}}), home, monkeypatch)
    assert found["nodes"].ok is False
    assert "cannot be read" in found["nodes"].detail


@pytest.mark.parametrize(
    ("facts", "ok", "words"),
    [
        ({}, True, "into a copy of its environment"),
        ({"uv": False, "pip": True}, True, "into a copy of its environment"),
        ({"uv": False}, None, "neither uv nor pip"),
        ({"virtual": False}, None, "in no virtual environment"),
        ({"virtual": False, "virtualenv": False}, None, "has no virtualenv"),
        ({"packages": None, "uv": False}, None, "was not found"),
    ],
)
def test_whether_ray_can_install_dependencies_is_told_before_a_run_needs_it(
    facts: dict[str, Any], ok: bool | None, words: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = findings(Cluster(protected=False, **facts), home, monkeypatch)["dependencies"]
    assert found.ok is ok
    assert words in found.detail
    assert found.ok or found.hint


def test_storage_that_nodes_cannot_write_is_a_problem_and_none_is_not(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = findings(Cluster(protected=False, storage="permission denied"), home, monkeypatch, storage=Path("/fsx"))
    assert found["storage"].detail == "/fsx on gpu1: permission denied"
    assert found["storage"].ok is False
    cluster = Cluster(protected=False)
    found = findings(cluster, home, monkeypatch)
    assert found["storage"].ok is None
    assert cluster.asked == [("airlane.backends.ray.node_facts",)]


@pytest.mark.parametrize("said", ["", "Traceback ...\nModuleNotFoundError: json\n"])
def test_a_job_that_says_something_else_is_a_finding(said: str, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(protected=False)
    cluster.facts = said
    found = findings(cluster, home, monkeypatch)
    assert found["a job"].ok is False
    assert (said.strip().rpartition("\n")[2] or "it printed nothing") in found["a job"].detail
    cluster.facts = BackendError("the cluster ran no job within 60 s", hint="air ray job list")
    assert findings(cluster, home, monkeypatch)["a job"].detail == "the cluster ran no job within 60 s"
