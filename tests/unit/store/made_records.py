"""Records made by hand or by hypothesis."""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import StrEnum
from typing import Any

from hypothesis import strategies as st

from airlane.store.records import EnvironmentRecord, Limits, RunRecord, Status
from airlane.store.states import Phase, State


def made_record(**changes: Any) -> RunRecord:
    """A small run."""
    record = RunRecord(
        id="",
        experiment_name="test",
        user="me",
        submitted_at=1_796_034_067.0,
        workload_file="/home/me/w.yaml",
        backend="local",
        profile=None,
        nodes=1,
        accelerators=1,
        accelerators_per_node=1,
        accelerator_type="CPU_1xCORE",
        simulate=False,
        limits=Limits(0, None, 30.0, 300.0),
        environment=EnvironmentRecord("host", (), "3.11", None),
    )
    return dataclasses.replace(record, **changes)


def made_status(state: State = State.RUNNING, **changes: Any) -> Status:
    phase = None if state.terminal else Phase.RUNNING
    return dataclasses.replace(Status(state, phase, None, 1_796_034_068.0, 4242, "here"), **changes)


# Every character that a file name, a log line or an error can bring along; lone surrogates are bytes that are no text.
TEXT = st.text(st.characters(codec=None), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT, lambda some: st.lists(some, max_size=3), max_leaves=5
)


def records(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a record's field, or any record."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return st.one_of([records(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(records(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, records(arguments[1]), max_size=3)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return st.builds(kind, **{field.name: records(hints[field.name]) for field in dataclasses.fields(kind)})
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXT,
        int: st.integers(-(2**53), 2**53),
        float: st.floats(allow_nan=False),
        bool: st.booleans(),
        type(None): st.none(),
        Any: JSON,
    }
    return plain[kind]
