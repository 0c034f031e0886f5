"""What every test obeys: those that need root or the lab run where that is, and where it must be, none is left out.

With AIR_REQUIRE_ROOT_TESTS=1, a test that is skipped for want of root fails; with AIR_REQUIRE_LAB_TESTS=1, one that is
skipped for want of the lab. The summary says how many ran. What is marked `long` runs with AIR_LONG_TESTS=1 alone.
With several workers, all tests with clusters are one worker's.
Ctrl-C means what it means in a terminal, whatever started pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import settings

from ray_fixtures import ray_environment, ray_lab, ray_python  # noqa: F401 - fixtures

# How long an example takes says more about the machine than about the code.
settings.register_profile("airlane", deadline=None)
settings.load_profile("airlane")

collect_ignore = ["training"]  # e2e/recipes runs these where torch is
# Below tests/: each test of these is long, and any worker's.
LONG_ONE_BY_ONE = ("e2e/recipes/test_recipe_parts",)
# All of these together are one worker's. They share a cluster, or keep the machine busy with their own.
WITH_CLUSTERS = ("contract", "e2e/ranks", "e2e/ray", "e2e/top", "lab")
LAB_PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "mariadbd", "munged", "dockerd", "ip", "nsenter", "unshare")


@dataclass(frozen=True)
class Need:
    """What the tests with a marker cannot do without."""

    marker: str
    name: str
    # In the reason of a skip, if that is why.
    reason: re.Pattern[str]
    # Set to 1, this variable turns such skips into failures.
    required_by: str
    # What is missing here, for people; empty where nothing is.
    missing: str


def needs() -> list[Need]:
    as_root = sys.platform == "linux" and os.geteuid() == 0
    without = [program for program in LAB_PROGRAMS if shutil.which(program) is None]
    no_lab = f" (not here: {', '.join(without)})" if without else ""
    return [
        Need(
            marker="root",
            name="root",
            reason=re.compile("needs root|only root"),
            required_by="AIR_REQUIRE_ROOT_TESTS",
            missing="" if as_root else "needs root on Linux",
        ),
        Need(
            marker="lab",
            name="the lab",
            reason=re.compile("the lab wants"),
            required_by="AIR_REQUIRE_LAB_TESTS",
            missing="" if as_root and not without else f"the lab wants root on Linux, Slurm and Docker{no_lab}",
        ),
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("AIR_LONG_TESTS") == "1":
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def worker_of(nodeid: str) -> str:
    """What one worker runs as a whole: a file, everything that must not run beside itself, or one test that is long."""
    name = nodeid.partition("::")[0].removeprefix("tests/")
    if name.startswith(LONG_ONE_BY_ONE):
        return nodeid
    return "with clusters" if name.startswith(WITH_CLUSTERS) else name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = worker_of
    return scheduler


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what it puts into the background like that, and every program under test would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for need in needs():
        config.addinivalue_line("markers", f"{need.marker}: needs {need.name}")
        config.pluginmanager.register(NeedyTests(need, required=os.environ.get(need.required_by) == "1"))


class NeedyTests:
    """Skips the tests that cannot run here for want of something, and counts those that ran."""

    def __init__(self, need: Need, *, required: bool) -> None:
        self._need = need
        self._required = required
        self._ran = 0

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            if self._need.missing and item.get_closest_marker(self._need.marker):
                item.add_marker(pytest.mark.skip(reason=self._need.missing))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        report.user_properties.append((self._need.marker, item.get_closest_marker(self._need.marker) is not None))
        if self._required and report.skipped and self._need.reason.search(str(report.longrepr)):
            report.outcome = "failed"
            report.longrepr = f"{self._need.required_by}=1, and this test was skipped: {report.longrepr}"
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        needy = (self._need.marker, True) in report.user_properties
        self._ran += report.when == "call" and not report.skipped and needy

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._required:
            terminalreporter.write_line(f"{self._ran} tests that need {self._need.name} ran")
