"""What every test obeys: those marked `root` run as root on Linux alone, and a CI that has root may not leave them out.

With AIR_REQUIRE_ROOT_TESTS=1, a test that is skipped for want of root fails; the summary says how many ran.
Ctrl-C means what it means in a terminal, whatever started pytest.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Generator, Sequence

import pytest
from hypothesis import settings

_FOR_WANT_OF_ROOT = re.compile("needs root|only root")


# How long an example takes says more about the machine than about the code.
settings.register_profile("airlane", deadline=None)
settings.load_profile("airlane")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what it puts into the background like that, and every program under test would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(RootTests(required=os.environ.get("AIR_REQUIRE_ROOT_TESTS") == "1"))


class RootTests:
    """Skips the tests marked `root` where they cannot run, and counts those that ran."""

    def __init__(self, *, required: bool) -> None:
        self._required = required
        self._ran = 0

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        if sys.platform == "linux" and os.geteuid() == 0:
            return
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="needs root on Linux"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        report.user_properties.append(("root", item.get_closest_marker("root") is not None))
        if self._required and report.skipped and _FOR_WANT_OF_ROOT.search(str(report.longrepr)):
            report.outcome = "failed"
            report.longrepr = f"AIR_REQUIRE_ROOT_TESTS=1, and this test was skipped: {report.longrepr}"
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._ran += report.when == "call" and not report.skipped and ("root", True) in report.user_properties

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._required:
            terminalreporter.write_line(f"{self._ran} tests that need root ran")
