"""What a profile of the ray backend may say."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from airlane.cluster.find import dashboard_url, is_name
from airlane.errors import ConfigError
from airlane.frozen import frozen
from airlane.spec.accelerators import GPU_TYPES, parse_accelerator_type
from airlane.spec.suggest import did_you_mean

WAIT_MINUTES = 24 * 60.0
CPUS_PER_ACCELERATOR = 1

# What a run asks for by itself, or Ray gives in another way than as a resource that a profile can add.
_NOT_CUSTOM: dict[str, str] = {
    "CPU": "cpus_per_accelerator says how many CPUs go with a GPU; a CPU_<n>xCORE type asks for n",
    "GPU": "the workload's accelerator_type says how many GPUs a node gets",
    "memory": "leave it out: the command is no Ray worker, and Ray does not limit its memory",
    "object_store_memory": "leave it out: no object of the run's is kept there",
}


@frozen(kw_only=True)
class RayOptions:
    """The ray keys of a profile, read.

    `address` is a dashboard's, or the name of a cluster from `air ray up`; None looks where Ray's own tools do.
    `storage` is a folder that all nodes share; without one each node keeps its checkpoints. `wait_minutes`: how long
    nodes that are busy are waited for; with `autoscales`, missing ones, too. `resources` are asked for on each node
    beside the accelerators. `accelerators` maps a model to Ray's name for it, where the two differ.
    """

    address: str | None = None
    token_file: Path | None = None
    storage: Path | None = None
    wait_minutes: float = WAIT_MINUTES
    autoscales: bool = False
    cpus_per_accelerator: int = CPUS_PER_ACCELERATOR
    resources: Mapping[str, float] = field(default_factory=dict)
    accelerators: Mapping[str, str] = field(default_factory=dict)

    def model(self, accelerator_model: str) -> str:
        """What Ray calls a GPU model: A10 may be A10G there."""
        return self.accelerators.get(accelerator_model, accelerator_model)


def checkpoints_folder(storage: Path | None, own: Path, run_id: str) -> Path:
    """Where a run's checkpoints go: into the shared folder, or into the run's `own` on each node."""
    return (storage / run_id if storage is not None else own) / "checkpoints"


def read_options(options: Mapping[str, Any]) -> RayOptions:
    """The options of a profile.

    Raises:
        ConfigError: a key is not known or its value is wrong; the message names it.
    """
    values: dict[str, Any] = {}
    for key, value in options.items():
        if key not in _READERS:
            known = f"options: {', '.join(_READERS)}"
            raise ConfigError(f"the ray backend has no option {key!r}", hint=did_you_mean(key, _READERS) or known)
        values[key] = _READERS[key](value, key)
    return RayOptions(**values)


def _address(value: Any, key: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{key} must be text, not {value!r}", hint=f'write {key} = "http://HEAD:8265"')
    if not is_name(value):
        dashboard_url(value, key)
    return value


def _path(value: Any, key: str) -> Path:
    expanded = os.path.expanduser(value) if isinstance(value, str) else ""  # noqa: PTH111 - Path's raises
    if not expanded.startswith("/") or "\n" in expanded:
        raise ConfigError(f"{key} must be an absolute path, not {value!r}")
    return Path(expanded)


def _minutes(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigError(f"{key} must be minutes, more than 0, not {value!r}")
    return float(value)


def _yes_or_no(value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{key} must be true or false, not {value!r}")
    return value


def _whole(value: Any, key: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{key} must be a whole number, 0 or more, not {value!r}")
    return value


def _resources(value: Any, key: str) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ConfigError(f"{key} must be a table, not {value!r}", hint=f"write {key} = {{ fast_disk = 1 }}")
    for name, amount in value.items():
        if name in _NOT_CUSTOM or name.startswith(("node:", "accelerator_type:")):
            raise ConfigError(f"{key}: {name} is not for a profile to add", hint=_NOT_CUSTOM.get(name, "leave it out"))
        _check_amount(amount, f"{key}.{name}")
    return {name: float(amount) for name, amount in value.items()}


def _check_amount(amount: Any, where: str) -> None:
    """Ray knows fractions of one, and whole numbers above."""
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 < amount < float("inf"):
        raise ConfigError(f"{where} must be an amount above 0, not {amount!r}")
    if amount > 1 and amount != int(amount):
        raise ConfigError(f"{where} must be a whole number, or less than 1, not {amount!r}")


def _accelerators(value: Any, key: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"{key} must be a table, not {value!r}", hint=f'write {key} = {{ A10 = "A10G" }}')
    models = {parsed.model for name in GPU_TYPES if (parsed := parse_accelerator_type(name)) is not None}
    for model, name in value.items():
        if model not in models:
            near = did_you_mean(model, models)
            raise ConfigError(f"{key}: there is no accelerator {model!r}", hint=near or ", ".join(sorted(models)))
        if not isinstance(name, str) or not name.strip() or ":" in name:
            raise ConfigError(
                f"{key}.{model} must be Ray's name of a GPU model, not {name!r}",
                hint='write "A10G"; the names that a cluster has: air doctor',
            )
    return dict(value)


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "address": _address,
    "token_file": _path,
    "storage": _path,
    "wait_minutes": _minutes,
    "autoscales": _yes_or_no,
    "cpus_per_accelerator": _whole,
    "resources": _resources,
    "accelerators": _accelerators,
}
