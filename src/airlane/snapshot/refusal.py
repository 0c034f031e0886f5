"""What cannot be part of a snapshot, told all at once."""

from __future__ import annotations

from collections.abc import Mapping

from airlane.errors import SnapshotError
from airlane.snapshot.links import escaping_links
from airlane.snapshot.wording import counted, shown

_SHOWN = 50


def refused_links(links: Mapping[bytes, bytes]) -> dict[bytes, str]:
    """Why each link that leads outside is refused; `links` are all those of the tree, path to target."""
    return {path: f"is a symbolic link that leads outside, to {shown(links[path])}" for path in escaping_links(links)}


def refusal(refused: Mapping[bytes, str]) -> SnapshotError:
    """One error for all the paths that cannot be packaged, each with its reason."""
    lines = [f"  {shown(path) if path else '.'} {reason}" for path, reason in sorted(refused.items())[:_SHOWN]]
    if len(refused) > _SHOWN:
        lines.append(f"  and {len(refused) - _SHOWN} more")
    return SnapshotError(
        f"{counted(len(refused), 'path')} cannot be packaged:\n" + "\n".join(lines),
        hint="remove them, ignore them with .gitignore, or choose what to package with code_source.include_paths",
    )
