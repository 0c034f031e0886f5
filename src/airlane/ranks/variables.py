"""The variables that make a process a rank, under torchrun's names. Pure."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from airlane.ranks.rank_map import Place, RankMap
    from airlane.ranks.settings import Settings

# What a user may set otherwise.
_DEFAULTS = {
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "PYTHONFAULTHANDLER": "1",  # with it, a rank that hangs can be asked for its stacks
}


@dataclass(frozen=True)
class Generation:
    """One try of all ranks. `number` counts every one; `restarts` those that a failure of a rank used up."""

    number: int
    restarts: int
    address: str
    port: int


def rank_variables(
    place: Place, ranks: RankMap, generation: Generation, settings: Settings, run: str
) -> dict[str, str]:
    """What a rank finds in its environment, over what it inherits."""
    here = len(ranks.on_node(place.node_rank))
    world = len(ranks.places)
    virtual = settings.virtual_local_rank and bool(place.gpus)
    devices = place.gpus[place.local_rank : place.local_rank + 1] if virtual else place.gpus
    return {
        **_defaults(settings, len(ranks.places)),
        **_device_order(place.gpus),
        **settings.env,
        "RANK": str(place.rank),
        "LOCAL_RANK": "0" if virtual else str(place.local_rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(here),
        "GROUP_RANK": str(place.node_rank),
        "GROUP_WORLD_SIZE": str(ranks.nodes),
        "NODE_RANK": str(place.node_rank),
        "NUM_NODES": str(ranks.nodes),
        "ROLE_NAME": settings.role,
        "ROLE_RANK": str(place.rank),
        "ROLE_WORLD_SIZE": str(world),
        "MASTER_ADDR": generation.address,
        "MASTER_PORT": str(generation.port),
        "CUDA_VISIBLE_DEVICES": ",".join(devices),
        "TORCHELASTIC_RESTART_COUNT": str(generation.restarts),
        "TORCHELASTIC_MAX_RESTARTS": str(settings.max_restarts),
        "TORCHELASTIC_RUN_ID": run,
        "TORCHELASTIC_USE_AGENT_STORE": "False",  # rank 0 opens the store, as MASTER_PORT is held for it
        "AIR_RANKS_GENERATION": str(generation.number),
    }


def _defaults(settings: Settings, world: int) -> Mapping[str, str]:
    """Those that the user has not set. A rank that is alone may use every core, as under torchrun."""
    single = {"OMP_NUM_THREADS"} if world == 1 else set()
    return {name: value for name, value in _DEFAULTS.items() if name not in settings.sent and name not in single}


def _device_order(gpus: tuple[str, ...]) -> Mapping[str, str]:
    """Indexes are the driver's, which counts by PCI bus; CUDA's own order is fastest first."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if any(gpu.isdigit() for gpu in gpus) else {}
