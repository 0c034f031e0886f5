"""Where a node of an attempt finds the run's files."""

from __future__ import annotations

from pathlib import Path

from airlane import launch
from airlane.backends.base import NodePlace
from airlane.frozen import frozen
from airlane.store.disk import make_private_folder
from airlane.store.paths import RunPaths


@frozen
class Layout:
    """`seen` is the run folder as the node sees it, `written` as the supervisor writes it; one where it is shared.

    `launch` is the folder of our programs on the node.
    """

    seen: RunPaths
    written: RunPaths
    launch: Path

    @property
    def programs(self) -> Path:
        """The folder of what a command may call of ours: air-ranks."""
        return self.launch.parent / "ranks" / "bin"


def lay_out(paths: RunPaths, attempt: int, place: NodePlace) -> Layout:
    """The layout of a node; what one without a share in the run folder needs of it is written, to be sent there.

    Raises OSError.
    """
    if place.home is None:
        return Layout(paths, paths, Path(launch.__file__).parent)
    written = RunPaths(paths.sent(attempt=attempt, node=place.node))
    make_private_folder(written.root)
    for path in (paths.command, paths.parameters):
        if path.exists():
            (written.root / path.name).write_bytes(path.read_bytes())
    return Layout(RunPaths(place.home.root), written, place.home.launch)
