"""What `air doctor` looks at on a Ray cluster. A small job proves what its head can do."""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from airlane.backends.base import Finding
from airlane.backends.ray.asking import ask_node
from airlane.backends.ray.capacity import ListedNode, read_nodes, shapes
from airlane.backends.ray.options import RayOptions
from airlane.backends.ray.own_clusters import named_cluster
from airlane.backends.ray.versions import ClusterVersions, check_base, check_python, read_versions
from airlane.cluster.find import RayCluster, find_cluster
from airlane.cluster.rest import Dashboard
from airlane.errors import AirError, ConfigError, RayAnswerError, RayDeniedError
from airlane.launch.interface import is_own
from airlane.spec.bases import BASES
from airlane.store.paths import Home

ANSWER_S = 5.0
MODE = "/api/authentication_mode"
_NOT_FOUND = 404
_MOST_NAMED = 3
_FROM_ELSEWHERE = 'through SSH: ssh -L 8265:localhost:8265 HEAD, and address = "http://127.0.0.1:8265" in the profile'


def doctor(options: RayOptions, home: Home, env: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Every check, in the order in which a run would need them; stops at what the rest depends on."""
    try:
        cluster = find_cluster(
            address=options.address,
            token_file=options.token_file,
            env=os.environ if env is None else env,
            named=lambda name: named_cluster(home, name),
        )
        dashboard = Dashboard(cluster.url, cluster.token, timeout_s=ANSWER_S)
        yield from _dashboard(cluster, dashboard)
    except AirError as error:
        yield Finding("Ray cluster", False, error.message, error.hint or _FROM_ELSEWHERE)
        return
    try:
        versions = read_versions(dashboard)
    except RayDeniedError as error:
        yield _denied(cluster, error)
        return
    except AirError as error:
        yield Finding("versions", False, error.message, error.hint)
        return
    yield from _token(cluster, dashboard)
    yield from _versions(versions, cluster.url)
    yield from _nodes(dashboard)
    yield from _probe(dashboard, options)


def _dashboard(cluster: RayCluster, dashboard: Dashboard) -> Iterator[Finding]:
    """Whether it is reached, by a question that every cluster answers without a token. Raises AirError."""
    before = time.monotonic()
    _mode(dashboard)
    took_s = time.monotonic() - before
    yield Finding("Ray cluster", True, f"{cluster.url} ({cluster.where}) answered in {took_s:.2f} s")


def _mode(dashboard: Dashboard) -> str:
    """How the cluster knows its users; before Ray 2.52 it did not."""
    try:
        said = dashboard.get_json(MODE)
    except RayAnswerError as error:
        if error.status != _NOT_FOUND:
            raise
        return "disabled"
    return str(said.get("authentication_mode")) if isinstance(said, dict) else "disabled"


def _denied(cluster: RayCluster, error: RayDeniedError) -> Finding:
    if cluster.token is None:
        return Finding("token", False, "the cluster wants one, and none is given", error.hint)
    return Finding("token", False, f"the cluster does not accept the one of {cluster.token_from}", error.hint)


def _token(cluster: RayCluster, dashboard: Dashboard) -> Iterator[Finding]:
    if _mode(dashboard) == "disabled":
        words = "none is asked for: whoever reaches this address can run programs there"
        yield Finding(
            "token", None, words, "start the cluster with RAY_AUTH_MODE=token and a token in ~/.ray/auth_token"
        )
        return
    yield Finding("token", True, f"the one of {cluster.token_from} is accepted")
    if cluster.token_file is not None and cluster.token_file.stat().st_mode & 0o077:
        yield Finding(
            "token file", None, f"{cluster.token_file} can be read by others", f"chmod 600 {cluster.token_file}"
        )
    parts = urlsplit(cluster.url)
    if parts.scheme == "http" and not is_own(parts.hostname or ""):
        words = "none: the token crosses the network as it is, with every request"
        yield Finding("encryption", None, words, _FROM_ELSEWHERE)


def _versions(versions: ClusterVersions, url: str) -> Iterator[Finding]:
    try:
        check_python(versions, url)
    except ConfigError as error:
        yield Finding("versions", False, error.message, error.hint)
        return
    own = ".".join(platform.python_version_tuple()[:2])
    fitting, refused = [], None
    for base in BASES:
        try:
            check_base(base, own, versions, url)
            fitting.append(base)
        except ConfigError as error:
            refused = refused or error
    words = f"{versions.words}: environment.version {', '.join(fitting)}"
    yield Finding("versions", True if refused is None else None, words, refused.hint if refused is not None else None)


def _nodes(dashboard: Dashboard) -> Iterator[Finding]:
    try:
        nodes = read_nodes(dashboard)
    except AirError as error:
        yield Finding("nodes", False, error.message, error.hint)
        return
    alive = [node for node in nodes if node.alive]
    dead = [node for node in nodes if not node.alive]
    if not alive:
        yield Finding("nodes", False, "none is alive", "ray start --address=HEAD:6379, on the machines of the cluster")
    else:
        yield Finding("nodes", True, f"{len(alive)}: {'; '.join(shapes(alive))}")
        yield _gpus(alive)
    if dead:
        named = ", ".join(f"{node.name} ({node.why or 'no reason given'})" for node in dead[-_MOST_NAMED:])
        yield Finding("dead nodes", None, f"{len(dead)}: {named}" + (", ..." if len(dead) > _MOST_NAMED else ""))


def _gpus(alive: Sequence[ListedNode]) -> Finding:
    counted: Counter[str] = Counter()
    for node in alive:
        counted[node.model or "GPU of an unknown model"] += int(node.total.get("GPU", 0))
    found = [f"{count} × {model}" for model, count in counted.items() if count]
    if not found:
        return Finding("GPUs", None, "none", "workloads for GPUs can be tried there with --simulate")
    unknown = counted["GPU of an unknown model"] > 0
    hint = "accelerator_type: GPU_<n>xANY takes them" if unknown else None
    return Finding("GPUs", None if unknown else True, ", ".join(found), hint)


def _probe(dashboard: Dashboard, options: RayOptions) -> Iterator[Finding]:
    folder = [str(options.storage)] if options.storage is not None else []
    before = time.monotonic()
    try:
        host, said = ask_node(dashboard, "airlane.backends.ray.node_facts", *folder)
        facts = json.loads(said)
    except AirError as error:
        yield Finding("a job", False, error.message, error.hint)
        return
    except ValueError:
        last = said.strip().splitlines()[-1:] or ["it printed nothing"]
        yield Finding("a job", False, f"on {host}: {last[0]}", "air ray job list")
        return
    yield Finding("a job", True, f"ran on {host} within {time.monotonic() - before:.1f} s")
    yield _dependencies(facts)
    yield _storage(options, host, facts)


def _dependencies(facts: Mapping[str, Any]) -> Finding:
    """Whether Ray can install packages for a run there: uv_environment.py tells how it does."""
    name = "dependencies"
    if not facts["packages"]:
        return Finding(name, None, "where Ray's own packages are was not found", "try a workload with dependencies")
    if facts["virtual"] and not (facts["uv"] or facts["pip"]):
        words = "Ray's environment has neither uv nor pip: workloads with dependencies fail"
        return Finding(name, None, words, "install uv beside Ray on every node, and start the cluster again")
    if facts["virtual"]:
        return Finding(name, True, "Ray installs them, into a copy of its environment on each node")
    if not facts["virtualenv"]:
        words = "Ray's environment has no virtualenv: workloads with dependencies fail"
        return Finding(name, None, words, "install virtualenv beside Ray on every node, and start the cluster again")
    words = "Ray is in no virtual environment: what a dependency needs is installed again for each list of dependencies"
    return Finding(name, None, words, "start Ray from a virtual environment, with uv in it")


def _storage(options: RayOptions, host: str, facts: Mapping[str, Any]) -> Finding:
    if options.storage is None:
        words = "none: checkpoints stay on the nodes, and one that is lost takes them along"
        return Finding("storage", None, words, 'storage = "/FOLDER" in the profile names a folder that all nodes share')
    if facts["storage"]:
        words = f"{options.storage} on {host}: {facts['storage']}"
        return Finding("storage", False, words, "set storage in the profile to a folder that all nodes share")
    return Finding(
        "storage", True, f"{options.storage} can be written on {host}; that other nodes see it was not tried"
    )
