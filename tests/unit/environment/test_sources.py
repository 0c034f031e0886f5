"""Where packages come from: uv's settings, pip's, and the dependencies' own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airlane.environment.dependencies import parse
from airlane.environment.sources import Sources, sources
from airlane.errors import EnvironmentBuildError


def of(tmp_path: Path, *lines: str, **environ: str) -> Sources:
    return sources(parse(lines, base_dir=tmp_path), {"HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, **environ})


def test_an_index_among_the_dependencies_replaces_the_configured_one(tmp_path: Path) -> None:
    found = of(tmp_path, "-i https://mine", PIP_INDEX_URL="https://pip", UV_INDEX_URL="https://old")
    assert found.environ["UV_DEFAULT_INDEX"] == "https://mine"
    assert "UV_INDEX_URL" not in found.environ


def test_extra_indexes_and_links_are_added_to_the_configured_ones(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        "--extra-index-url https://a",
        "--extra-index-url https://b",
        "-f https://links",
        "--trusted-host h",
        PIP_EXTRA_INDEX_URL="https://pip",
        PIP_FIND_LINKS="/wheels",
        PIP_TRUSTED_HOST="p",
    )
    assert found.environ["UV_INDEX"] == "https://a https://b https://pip"
    assert found.environ["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert found.environ["UV_FIND_LINKS"] == "/wheels,https://links"
    assert found.environ["UV_INSECURE_HOST"] == "p h"


def test_the_users_own_index_strategy_stays(tmp_path: Path) -> None:
    found = of(tmp_path, "--extra-index-url https://a", UV_INDEX_STRATEGY="first-index")
    assert found.environ["UV_INDEX_STRATEGY"] == "first-index"


@pytest.mark.parametrize("environ", [{}, {"PIP_NO_INDEX": "1"}])
def test_no_index_is_a_flag(tmp_path: Path, environ: dict[str, str]) -> None:
    lines = () if environ else ("--no-index",)
    assert of(tmp_path, *lines, **environ).flags == ("--no-index",)
    assert of(tmp_path).flags == ()


def test_prereleases_are_allowed_on_request(tmp_path: Path) -> None:
    assert of(tmp_path, "--pre").environ["UV_PRERELEASE"] == "allow"


def test_pips_constraints_hold_unless_uv_has_its_own(tmp_path: Path) -> None:
    assert of(tmp_path, PIP_CONSTRAINT="/c.txt").constraint_files == ("/c.txt",)
    assert of(tmp_path, PIP_CONSTRAINT="/c.txt", UV_CONSTRAINT="/u.txt").constraint_files == ("/u.txt",)


def test_the_values_of_variables_are_secrets(tmp_path: Path) -> None:
    found = of(tmp_path, "--index-url https://${WHO}@h", "x @ https://$OTHER.h/x.whl", WHO="t0ken", OTHER="o")
    assert found.environ["UV_DEFAULT_INDEX"] == "https://t0ken@h"
    assert set(found.secrets) == {"t0ken", "o"}


def test_an_unset_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBuildError, match=r"\$TOKEN is not set"):
        of(tmp_path, "--index-url https://${TOKEN}@h")
