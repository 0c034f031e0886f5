"""The bases that are shipped."""

from __future__ import annotations

import re

import pytest

from airlane.environment.bases import ALIASES, BASES, LOCAL_BUILDS, Base, find_base, normalized
from airlane.errors import EnvironmentBuildError, NotFoundError
from airlane.spec import bases as spec_bases

PACKAGED = [base for base in BASES.values() if base.packaged]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("4", "4"),
        ("AI5", "AI5"),
        ("ai5", "AI5"),
        ("databricks_ai_v5", "AI5"),
        ("Databricks_AI_v6", "AI6"),
        ("host",) * 2,
    ],
)
def test_a_base_is_found_by_name_and_alias_in_any_case(written: str, name: str) -> None:
    assert find_base(written).name == name


def test_the_bases_are_those_that_a_workload_may_name() -> None:
    assert {base.name for base in BASES.values() if not base.internal} == set(spec_bases.BASES)


def test_every_alias_leads_to_a_base() -> None:
    assert {find_base(alias).name for alias in ALIASES} <= set(BASES)


def test_an_unknown_base_lists_those_a_user_may_name() -> None:
    with pytest.raises(NotFoundError) as caught:
        find_base("AI99")
    assert caught.value.hint is not None
    assert "AI5" in caught.value.hint
    assert "mlflow-server" not in caught.value.hint


@pytest.mark.parametrize("base", PACKAGED, ids=lambda base: base.name)
def test_every_direct_package_is_pinned(base: Base) -> None:
    pinned = {pin.name for pin in base.pins()}
    assert {package.name for package in base.direct()} <= pinned
    assert all(pin.version for pin in base.pins())


@pytest.mark.parametrize("base", PACKAGED, ids=lambda base: base.name)
def test_a_lock_names_no_host_and_no_path(base: Base) -> None:
    text = base.lock_file.read_text(encoding="utf-8")
    assert not re.search(r"://|(^|\s)/|--", text)


@pytest.mark.parametrize("base", PACKAGED, ids=lambda base: base.name)
def test_a_lock_says_from_which_file_it_was_made(base: Base) -> None:
    assert f" {base.name}.in;" in base.lock_file.read_text(encoding="utf-8").splitlines()[0]


def test_the_ai_bases_have_what_the_issue_promises() -> None:
    promised = {"ray", "torch", "transformers", "datasets", "accelerate", "huggingface-hub", "mlflow", "scikit-learn"}
    for name in ("AI5", "AI6"):
        assert promised <= {package.name for package in BASES[name].direct()}
    assert {package.name for package in BASES["AI5"].direct()} >= LOCAL_BUILDS


def test_a_python_outside_the_range_is_refused_with_the_range() -> None:
    BASES["AI5"].check_python((3, 11))
    with pytest.raises(EnvironmentBuildError, match=r"AI5 is for Python 3\.11 to 3\.13; air runs on Python 3\.14"):
        BASES["AI5"].check_python((3, 14))


def test_names_are_compared_as_indexes_do() -> None:
    assert normalized("Huggingface__Hub.x") == "huggingface-hub-x"
