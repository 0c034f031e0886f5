"""Nodes, places and ends of ranks as the tests need them."""

from __future__ import annotations

from airlane.ranks.ends import RankEnd
from airlane.ranks.hosts import Host
from airlane.ranks.rank_map import RankMap, SeatFacts, number
from airlane.ranks.settings import RankCommand, Settings
from airlane.ranks.shape import Request, Shape


def host(
    address: str, *, cpus: float = 8, gpus: float = 8, busy_gpus: float = 0, port: int = 1, name: str = ""
) -> Host:
    return Host(f"id-{address}-{port}", address, port, name, cpus, gpus, cpus, gpus - busy_gpus)


def mapped(*gpus_of_nodes: tuple[str, ...], ranks_per_node: int | None = None) -> RankMap:
    """The map of nodes 10.0.0.1, 10.0.0.2 ... with these GPUs; with `ranks_per_node` the ranks take none."""
    hosts = [host(f"10.0.0.{index + 1}") for index in range(len(gpus_of_nodes))]
    facts: list[SeatFacts] = []
    for one, gpus in zip(hosts, gpus_of_nodes, strict=True):
        for gpu in gpus if ranks_per_node is None else [None] * ranks_per_node:
            facts.append(SeatFacts(len(facts), one.node_id, () if gpu is None else (gpu,)))
    shape = Shape(len(hosts), ranks_per_node or len(gpus_of_nodes[0]), int(ranks_per_node is None), 1)
    return number(facts, {one.node_id: one for one in hosts}, shape)


def ended(rank: int, at_s: float, code: int | None = 1, *, asked: bool = False, lost: str | None = None) -> RankEnd:
    return RankEnd(rank, at_s, exit_code=None if lost else code, asked=asked, lost=lost)


def settings(**fields: object) -> Settings:
    basic = Settings(request=Request(), command=RankCommand(("x",)), folder="/here", sent={})
    return Settings(**{**basic.__dict__, **fields})
