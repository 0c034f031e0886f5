"""Placement groups: /api/v0/placement_groups.

Source: Ray 2.60, gcs.proto, PlacementGroupStats.SchedulingState.
"""

from __future__ import annotations

from typing import Any

from airlane.top.fields import dig, number, rows, text, whole
from airlane.top.reading.resources import offered
from airlane.top.reading.state_api import MOST, read_rows
from airlane.top.values import Bundle, Group

GROUPS = f"/api/v0/placement_groups?detail=1&limit={MOST}"
_WAITS = ("PENDING", "PREPARED", "RESCHEDULING")
_WHY = {
    "QUEUED": "waits for its turn",
    "SCHEDULING_STARTED": "is being placed",
    "NO_RESOURCES": "waits for resources that others use",
    "INFEASIBLE": "asks for more than there is",
    "FAILED_TO_COMMIT_RESOURCES": "a node has refused: it is tried again",
    "REMOVED": "was removed while it was placed",
}


def read_groups(body: bytes) -> tuple[tuple[Group, ...], int]:
    """The groups, and how many there are beyond those. Raises ValueError: this is no such answer."""
    found, cut = read_rows(body, _group)
    return tuple(group for group in found if group.id), cut


def _group(row: dict[str, Any]) -> Group:
    get = row.get
    state = text(get("state"))
    asked_ns = number(dig(get("stats"), "creation_request_received_ns"))
    return Group(
        id=text(get("placement_group_id")),
        name=text(get("name")),
        state=state,
        strategy=text(get("strategy")) or None,
        job_id=text(get("creator_job_id")) or None,
        bundles=tuple(_bundle(bundle, place) for place, bundle in enumerate(rows(get("bundles")))),
        asked_at=asked_ns / 1e9 if asked_ns else None,
        why=_why(text(dig(get("stats"), "scheduling_state"))) if state in _WAITS else None,
    )


def _bundle(row: dict[str, Any], place: int) -> Bundle:
    index = whole(dig(row, "bundle_id", "bundle_index"))
    return Bundle(
        place if index is None else index, offered(row.get("unit_resources")), text(row.get("node_id")) or None
    )


def _why(state: str) -> str | None:
    return _WHY.get(state, state.replace("_", " ").lower() or None)
