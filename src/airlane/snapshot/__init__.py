"""The user's code, frozen: which files, the state of their repository, and one archive named by its content."""

from airlane.snapshot.model import CodeRequest, SnapshotPlan
from airlane.snapshot.pack import pack
from airlane.snapshot.plan import plan
from airlane.snapshot.unpack import unpack

__all__ = ["CodeRequest", "SnapshotPlan", "pack", "plan", "unpack"]
