"""How far a base is loosened for the user's dependencies."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.environment.bases import BASES, Base
from airlane.environment.dependencies import parse
from airlane.environment.resolve import (
    Request,
    _changed,
    _may_stay_offline,
    _moved,
    _rungs,
    build_error,
    read_pins,
)
from airlane.environment.uv_process import Outcome


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Base:
    """A base of two direct packages, one of them with a build per processor, and one that they need."""
    monkeypatch.setattr("airlane.environment.bases._FOLDER", tmp_path)
    (tmp_path / "5.in").write_text("torch>=2.13,<2.14\npandas[fast]>=2\n", encoding="utf-8")
    lock = (
        "torch==2.13.0\npandas==2.3.3 ; python_version < '3.12'\npandas==2.4.0 ; python_version >= '3.12'\nsix==1.0\n"
    )
    (tmp_path / "5.lock").write_text(lock, encoding="utf-8")
    return BASES["5"]


def request(base: Base, *lines: str, flags: tuple[str, ...] = ()) -> Request:
    parsed = parse(lines, base_dir=Path("/"))
    return Request(base, parsed, Path("/python"), flags, constraint_files=(), environ={})


def test_the_base_is_tried_as_it_is_first_and_as_names_only_last(base: Base) -> None:
    rungs = _rungs(request(base, "requests"))
    assert rungs[0].requirements == ("torch", "pandas[fast]")
    assert next(pin.text for pin in rungs[0].pinned) == "torch==2.13.0"
    assert rungs[1].requirements == ("torch>=2.13,<2.14", "pandas[fast]>=2")
    assert rungs[-1].requirements == ("torch", "pandas[fast]")
    assert rungs[-1].pinned == ()


def test_the_packages_the_user_names_are_set_free_before_the_others(base: Base) -> None:
    rungs = _rungs(request(base, "Torch==2.10"))
    assert [pin.name for pin in rungs[1].pinned] == ["pandas", "pandas"]
    assert rungs[2].requirements == ("torch", "pandas[fast]>=2")


def test_a_choice_made_from_old_lists_is_noticed(base: Base, tmp_path: Path) -> None:
    resolved = tmp_path / "resolved.txt"
    pins = base.pins()
    resolved.write_text("torch==2.13.0+cpu\npandas==2.3.3\nsix==1.0\n", encoding="utf-8")
    assert not _changed(resolved, pins, ())
    resolved.write_text("six==1.1\n", encoding="utf-8")
    assert _changed(resolved, pins, ())
    assert not _changed(resolved, pins, parse(["six==1.1"], base_dir=tmp_path))
    assert _changed(resolved, pins, parse(["six>=1.1"], base_dir=tmp_path))


@pytest.mark.parametrize("line", ["git+https://a.example/x", "x @ https://a.example/x.whl", "--pre"])
def test_what_may_have_changed_elsewhere_is_asked_for(base: Base, line: str) -> None:
    assert _may_stay_offline(request(base, "x"))
    assert not _may_stay_offline(request(base, line))
    assert not _may_stay_offline(request(base, flags=("--no-index",)))


def test_a_direct_package_that_left_its_pin_is_told(base: Base, tmp_path: Path) -> None:
    resolved = tmp_path / "resolved.txt"
    resolved.write_text("torch==2.10.0\npandas==2.4.0\nsix==9\n", encoding="utf-8")
    assert _moved(resolved, base) == ("torch 2.10.0 (the base has 2.13.0)",)


def test_a_resolved_file_is_read_with_links_and_markers(tmp_path: Path) -> None:
    resolved = tmp_path / "resolved.txt"
    resolved.write_text("# x==1\na-b==1 ; python_version < '3'\nC[d]==2\ne @ file:///x.whl\n", encoding="utf-8")
    assert read_pins(resolved) == {"a-b": "1", "c": "2", "e": "file:///x.whl"}


def test_an_unresolvable_environment_is_told_in_uvs_words(base: Base) -> None:
    said = "Using Python 3.11\nerror: No solution found when resolving dependencies\n  cause: Because you require both"
    error = build_error(
        request(base, "x @ https://u:pw@h/x.whl"), Outcome(succeeded=False, output=said), verb="resolved"
    )
    assert error.message.startswith(
        "The environment (5 + x @ https://***@h/x.whl) cannot be resolved.\nerror: No solution"
    )
    assert error.message.endswith("Because you require both")
    assert error.hint is not None


def test_a_full_disk_is_told_as_such(base: Base) -> None:
    outcome = Outcome(succeeded=False, output="error: failed to write\n  cause: No space left on device (os error 28)")
    error = build_error(request(base), outcome, verb="built")
    assert error.message.startswith("There is no space left")
    assert "air env prune" in str(error.hint)
