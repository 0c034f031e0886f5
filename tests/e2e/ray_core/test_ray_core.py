"""Every program of examples/ray-core says what it should, on a cluster of three nodes from `air ray up`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from e2e.ray.conftest import Bench, left_of
from ray_fixtures import share_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

# What Ray itself remarks, among others on calls that are canceled or never placed.
REMARK = re.compile(r"(\x1b\[\d+m)?\((raylet|autoscaler)")
# Ray's client server gives what it starts for each client 30 s, whatever else the machine does.
TOO_SLOW = "Starting Ray client server failed"
EXAMPLES = Path(__file__).parents[3] / "examples" / "ray-core"


class CoreBench(Bench):
    """Its clusters have a resource that is made up."""

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "RAY_OVERRIDE_RESOURCES": '{"licence": 1}'}


@dataclass(frozen=True)
class Core:
    """A cluster with three nodes of two CPUs, and what `air ray env` says about it."""

    bench: Bench
    python: Path
    variables: dict[str, str]
    client_address: str

    def run(self, program: str, *arguments: str) -> list[str]:
        """The lines that a program prints, as a user runs it after `eval "$(air ray env)"`; Ray's remarks left out."""
        line = [str(self.python), str(EXAMPLES / program), *arguments]
        env = {**self.bench.env, **self.variables}
        for _ in range(2):
            done = subprocess.run(line, check=False, env=env, capture_output=True, text=True, timeout=200)
            if TOO_SLOW not in done.stderr:
                break
        assert done.returncode == 0, done.stdout + done.stderr
        return [line for line in done.stdout.splitlines() if not REMARK.match(line)]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory, ray_environment: Path, ray_python: Path) -> Iterator[Core]:
    bench = CoreBench(tmp_path_factory.mktemp("ray-core"))
    share_environment(ray_environment, bench.home)
    (bench.home / "config.toml").write_text('[profiles.local]\ntracking_uri = "none"\n')
    cluster = bench.up("--nodes", "3", "--cpus-per-node", "2")
    yield Core(bench, ray_python, bench.answer("ray", "env")["variables"], cluster["client_address"])
    assert bench.air("ray", "down", "--all", "--yes").returncode == 0
    assert left_of(cluster["run_id"]) == []


def test_the_tour_and_the_readme_name_every_program() -> None:
    programs = {file.stem for file in EXAMPLES.glob("*.py")}
    (loop,) = re.findall(r"for program in (.*); do", yaml.safe_load((EXAMPLES / "tour.yaml").read_text())["command"])
    assert sorted(loop.split()) == sorted(programs)
    assert set(re.findall(r"\*\*\[(\w+)\.py\]", (EXAMPLES / "README.md").read_text())) == programs


def test_a_variable_an_address_and_a_client_lead_to_the_same_cluster(core: Core) -> None:
    lines = core.run("connect.py", core.client_address)
    assert [line[:38] for line in lines] == [
        "environment variable  3 nodes, 6 CPUs,",
        "direct                3 nodes, 6 CPUs,",
        "client                3 nodes, 6 CPUs,",
    ]
    assert {re.sub(r"\d$", "", line[39:]) for line in lines} == {"ran on 127.0.0."}


def test_calls_run_side_by_side_and_their_results_are_passed_on(core: Core) -> None:
    at_once, total, parts, spread = core.run("tasks.py")
    assert re.fullmatch(r"6 calls returned after 0\.\d s", at_once)
    assert total.startswith("0 + 1 + 4 + 9 + 16 + 25 = 55 after ")
    assert parts == "17 = 3 * 5 + 2"
    assert spread == "6 spread calls ran on 3 nodes"


@pytest.mark.long
def test_an_object_is_stored_once_and_read_in_place_on_every_node(core: Core) -> None:
    assert core.run("objects.py") == [
        "8 MB, stored once, read by 6 calls on 3 nodes: {1000000.0}",
        "a reader may write: False",
        "as an argument: ndarray; in a list: ObjectRef",
        "fetched by who holds the reference: 1.0",
    ]


@pytest.mark.long
def test_results_come_in_the_order_of_their_completion(core: Core) -> None:
    assert core.run("wait.py") == [
        "started    (3.6, 0.4, 2.0)",
        "completed  (0.4, 2.0, 3.6)",
        "after 1 s  0 ready, 1 late",
        "canceled   the late one",
        "in turn    8 calls, 2 at a time",
    ]


@pytest.mark.long
def test_whole_parts_of_and_made_up_resources_are_counted(core: Core) -> None:
    assert core.run("resources.py") == [
        "a CPU each, on this node       2 fit, on 1 of 3 nodes; one more waits",
        "half a CPU each, on this node  4 fit, on 1 of 3 nodes; one more waits",
        "a licence each, anywhere       3 fit, on 3 of 3 nodes; one more waits",
        "1000 CPUs                      waits for ever: the largest node has 2",
    ]


def test_killed_processes_are_replaced_as_often_as_was_said(core: Core) -> None:
    expected = [
        "killed twice, done at try 3, by 3 processes",
        "an error that may be retried, done at try 2",
        "counted [1, 2, 3]",
        "counted [4, 5] after a restart",
        "the actor's process is another: True",
        "killed again: the actor is dead, and every call says so",
    ]
    # Between them stands the traceback of the error that is retried.
    assert [line for line in core.run("retries.py") if line in expected] == expected


@pytest.mark.long
def test_each_call_has_the_variables_and_the_code_that_it_asked_for(core: Core) -> None:
    assert core.run("environments.py") == [
        "variables: ['hello', 'good day', 'hello']",
        "two versions of one module: [0.19, 0.2]",
        "an environment that cannot be made: RuntimeEnvSetupError",
    ]


@pytest.mark.long
def test_an_actor_serves_many_callers_and_is_found_by_name(core: Core) -> None:
    paid, found, fetched, killed = core.run("actors.py")
    assert paid == "5 callers paid in 10 times 1: 50"
    assert found == "found by its name: 7"
    assert float(fetched.removeprefix("100 fetches of 0.5 s at once: ").removesuffix(" s")) < 25
    assert killed == "killed: its calls fail"


def test_the_four_strategies_place_bundles_as_they_promise_and_no_better(core: Core) -> None:
    assert core.run("placement_groups.py") == [
        "PACK          2 bundles: on 1 of 3 nodes",
        "PACK          4 bundles: on 2 of 3 nodes",
        "SPREAD        3 bundles: on 3 of 3 nodes",
        "SPREAD        4 bundles: on 3 of 3 nodes",
        "STRICT_PACK   2 bundles: on 1 of 3 nodes",
        "STRICT_PACK   3 bundles: PENDING",
        "STRICT_SPREAD 3 bundles: on 3 of 3 nodes",
        "STRICT_SPREAD 4 bundles: PENDING",
        "two STRICT_PACK groups, two nodes busy: on 1 of 3 nodes",
    ]


@pytest.mark.long
def test_a_group_for_each_node_puts_consecutive_ranks_on_the_same_node(core: Core) -> None:
    done = core.bench.air("ray", "exec", "--", "python", str(EXAMPLES / "one_group_per_node.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "rank 0 (local 0) on 127.0.0.2",
        "rank 1 (local 1) on 127.0.0.2",
        "rank 2 (local 0) on 127.0.0.3",
        "rank 3 (local 1) on 127.0.0.3",
        "rank 4 (local 0) on 127.0.0.4",
        "rank 5 (local 1) on 127.0.0.4",
        "6 ranks on 3 nodes",
    ]
