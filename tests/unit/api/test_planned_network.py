"""Which network a run is told to use between its nodes."""

from __future__ import annotations

import pytest

from airlane.cli.plan_pages import dry_run_page, plan_facts
from airlane.cli.screen import PLAIN

from .conftest import Bench

TWO_NODES = """\
experiment_name: test
command: echo hi
environment: {version: host}
compute: {num_accelerators: 2, accelerator_type: CPU_1xCORE}
"""


def choose(bench: Bench, profile: str) -> None:
    """What the profile says, for the plans that follow."""
    (bench.folder / "config.toml").write_text(f'[profiles.local]\ntracking_uri = "none"\n{profile}')
    bench.client = bench.new_client()


@pytest.mark.parametrize(
    ("workload", "profile", "planned"),
    [
        ("", "", None),
        ("network: efa\n", "", "efa"),
        ("", "network = 'infiniband'\n", "infiniband"),
        ("network: ethernet\n", "network = 'efa'\n", "ethernet"),
    ],
)
def test_the_workloads_network_wins_over_the_profiles(
    bench: Bench, workload: str, profile: str, planned: str | None
) -> None:
    choose(bench, profile)
    assert bench.client.plan(bench.workload(TWO_NODES + workload)).record.network == planned


def test_there_is_no_network_to_choose_on_one_node_or_between_pretended_accelerators(bench: Bench) -> None:
    one = TWO_NODES.replace("CPU_1xCORE", "CPU_2xCORE") + "network: efa\n"
    assert bench.client.plan(bench.workload(one)).record.network is None
    two = TWO_NODES + "network: efa\n"
    assert bench.client.plan(bench.workload(two), simulate=True).record.network is None


def test_a_dry_run_names_the_network(bench: Bench) -> None:
    plan = bench.client.plan(bench.workload(TWO_NODES + "network: auto\n"))
    assert "network     auto      set on each node, from the devices it has" in dry_run_page(plan, PLAIN)
    assert plan_facts(plan)["network"] == "auto"
