"""Reading an order without what order.py imports: dataclasses, typing and json cost 40 ms before the command starts."""

from __future__ import annotations

from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from airlane.launch.order import Order

WHEN_TOLD = "--when-told"
START = b"start\n"


def read_order(path: str) -> Order:
    """The order in a file, as an object with the same fields. Raises OSError, or ValueError for broken JSON."""
    with open(path, encoding="utf-8") as file:
        fields = parse_object(file.read())
    fields.setdefault("beat_interval_s", None)
    fields.setdefault("silence_s", None)
    fields["secrets_files"] = tuple(fields.get("secrets_files", ()))
    fields["gpus"] = tuple(fields.get("gpus", ()))
    fields["scratch_folders"] = tuple(fields.get("scratch_folders", ()))
    container = fields.get("container")
    fields["container"] = SimpleNamespace(**container) if container is not None else None
    return SimpleNamespace(**fields)  # type: ignore[return-value]


def parse_object(text: str) -> dict[str, Any]:
    """A JSON object, read by CPython's own scanner where there is one. Raises ValueError."""
    try:
        from _json import make_scanner
    except ImportError:
        return _parse_slowly(text)
    rules = SimpleNamespace(
        strict=True,
        object_hook=None,
        object_pairs_hook=None,
        parse_float=float,
        parse_int=int,
        parse_constant=float,
        memo={},
    )
    try:
        value, end = make_scanner(rules)(text, 0)  # type: ignore[arg-type]
    except (StopIteration, SystemError):  # it raises its own error class only where json has been imported
        return _parse_slowly(text)
    if not isinstance(value, dict) or text[end:].strip():
        return _parse_slowly(text)
    return value


def _parse_slowly(text: str) -> dict[str, Any]:
    import json

    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")  # noqa: TRY004 - as broken as any other text
    return value
