"""`python .../preflight_rank.py`: a rank that measures whether all reach one another, and how fast.

Prints one JSON object a line. Needs torch; NCCL where the rank has a GPU, gloo elsewhere. Used on the nodes.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PATIENCE = dt.timedelta(seconds=60)
_GPU_BYTES, _CPU_BYTES = 256 << 20, 8 << 20
_TIMES = 5


class Rank:
    """One rank of the process group of all."""

    def __init__(self) -> None:
        import torch  # type: ignore[import-not-found,unused-ignore]
        import torch.distributed as dist  # type: ignore[import-not-found,unused-ignore]

        self._torch, self._dist = torch, dist
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.node, self.nodes = int(os.environ["GROUP_RANK"]), int(os.environ["GROUP_WORLD_SIZE"])
        self.per_node = int(os.environ["LOCAL_WORLD_SIZE"])
        self._has_gpu = bool(os.environ.get("CUDA_VISIBLE_DEVICES")) and torch.cuda.is_available()
        self._device = torch.device("cpu")
        if self._has_gpu:
            self._device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self._device)
        self._bytes = _GPU_BYTES if self._has_gpu else _CPU_BYTES
        self._numbers = torch.ones(self._bytes // 4, device=self._device)

    def run(self) -> None:
        tell("started")
        self._dist.init_process_group("nccl" if self._has_gpu else "gloo", timeout=_PATIENCE)
        self._all_reduce(None, 1)
        tell("joined")
        inside = [self._dist.new_group(self._of_node(node)) for node in range(self.nodes)]
        if self.per_node > 1:
            tell("node", node=self.node, bytes_per_s=self._all_reduce(inside[self.node], self.per_node))
        self._pairs()
        if self.world > 1:
            tell("all", bytes_per_s=self._all_reduce(None, self.world))
        self._dist.destroy_process_group()

    def _of_node(self, node: int) -> list[int]:
        return list(range(node * self.per_node, (node + 1) * self.per_node))

    def _all_reduce(self, group: Any, size: int) -> float:
        """Bus bandwidth: what each link of a ring carries. Source: the performance page of NVIDIA's nccl-tests."""
        self._dist.all_reduce(self._numbers, group=group)
        began = self._now()
        for _ in range(_TIMES):
            self._dist.all_reduce(self._numbers, group=group)
        took = (self._now() - began) / _TIMES
        self._numbers.fill_(1.0)
        return 2 * (size - 1) / size * self._bytes / took

    def _pairs(self) -> None:
        """From each node to the next, one pair at a time: a slow node is slow towards both its neighbours."""
        for node in range(self.nodes if self.nodes > 2 else self.nodes - 1):  # noqa: PLR2004 - two have one link
            other = (node + 1) % self.nodes
            ends = (node * self.per_node, other * self.per_node)
            if self.rank in ends:
                speed = self._one_way(*ends)
                if self.rank == ends[0]:
                    tell("pair", nodes=[node, other], bytes_per_s=speed)
            self._dist.barrier()

    def _one_way(self, source: int, target: int) -> float:
        took = 0.0
        for count in range(_TIMES + 1):
            began = self._now()
            if self.rank == source:
                self._dist.send(self._numbers, target)
                self._dist.recv(self._numbers, target)
            else:
                self._dist.recv(self._numbers, source)
                self._dist.send(self._numbers, source)
            took += (self._now() - began) * (count > 0)  # the first one opens the connection
        return 2 * _TIMES * self._bytes / took

    def _now(self) -> float:
        if self._has_gpu:
            self._torch.cuda.synchronize()
        return time.perf_counter()


def tell(step: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"preflight": step, **fields}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [path for path in sys.path if path != here]  # its modules are no one's top-level names
    Rank().run()
