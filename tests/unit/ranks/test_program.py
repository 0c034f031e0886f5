"""What a rank's process becomes on its node."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from airlane.ranks.order import KIT, PYTHON, Order
from airlane.ranks.program import MARK, RankProgram, folders_moved

ORDER = Order(argv=(PYTHON, "train.py"), folder="/nowhere", python=sys.executable, mark="m")


def made(order: Order, here: Path, node: dict[str, str] | None = None, python: str = "/node/python") -> RankProgram:
    return RankProgram(order, node=node or {}, python=python, kit="/kit", here=str(here))


def test_an_order_survives_its_way_to_the_node() -> None:
    order = replace(ORDER, argv=("a b", "ü\n\0kit"), script="x", sent={"A": "\udcff"}, own={"B": ""})
    assert Order.from_json(order.to_json()) == order


def test_the_launchers_python_is_taken_where_the_node_has_it(tmp_path: Path) -> None:
    assert made(ORDER, tmp_path).argv == [sys.executable, "train.py"]
    assert made(replace(ORDER, python="/not/there"), tmp_path).argv == ["/node/python", "train.py"]


def test_the_kit_is_where_it_was_unpacked(tmp_path: Path) -> None:
    assert made(replace(ORDER, argv=(f"{KIT}/a.py",)), tmp_path).argv == ["/kit/a.py"]


def test_a_rank_carries_its_mark_and_what_is_its_own(tmp_path: Path) -> None:
    program = made(replace(ORDER, own={"RANK": "3"}), tmp_path, {"RANK": "9", "HOME": "/h"})
    assert program.environment == {"RANK": "3", "HOME": "/h", MARK: "m"}


def test_a_rank_starts_in_the_launchers_folder_where_the_node_has_it(tmp_path: Path) -> None:
    there = tmp_path / "with space"
    there.mkdir()
    assert made(replace(ORDER, folder=str(there)), tmp_path).folder == str(there)
    assert made(ORDER, tmp_path).folder == str(tmp_path)


def test_a_script_that_is_not_on_the_node_is_named_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "train.py")):
        made(replace(ORDER, folder=str(tmp_path), script="train.py"), tmp_path)
    (tmp_path / "train.py").touch()
    assert made(replace(ORDER, folder=str(tmp_path), script="train.py"), tmp_path).script == tmp_path / "train.py"


def test_a_nodes_own_copy_of_the_code_is_where_everything_points(tmp_path: Path) -> None:
    code = tmp_path / "copy"
    (code / "src").mkdir(parents=True)
    (code / "src" / "train.py").touch()
    order = replace(
        ORDER,
        argv=(PYTHON, "/run/0/code/src/train.py", "--config=/run/0/code/a.yaml"),
        folder="/run/0/code/src",
        script="/run/0/code/src/train.py",
        sent={"CODE_SOURCE_PATH": "/run/0/code", "PYTHONPATH": "/run/0/code"},
    )
    program = made(order, tmp_path, {"CODE_SOURCE_PATH": str(code)})
    assert program.argv[1:] == [f"{code}/src/train.py", f"--config={code}/a.yaml"]
    assert (program.folder, program.script) == (f"{code}/src", code / "src" / "train.py")
    assert program.environment["PYTHONPATH"] == str(code)


def test_a_folder_that_was_shipped_is_where_the_seat_is() -> None:
    assert folders_moved(replace(ORDER, shipped="/me/work"), {}, "/ray/x") == {"/me/work": "/ray/x"}


def test_a_folder_that_ray_shipped_with_the_job_is_found_on_every_node() -> None:
    order = replace(ORDER, folder="/tmp/ray/session_1/working_dir_files/_ray_pkg_5f")
    assert folders_moved(order, {}, "/other/_ray_pkg_5f") == {order.folder: "/other/_ray_pkg_5f"}
    assert folders_moved(order, {}, "/other/_ray_pkg_99") == {}
