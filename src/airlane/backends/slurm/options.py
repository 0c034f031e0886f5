"""What a profile of the slurm backend may say."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from airlane.backends.slurm.durations import read_duration
from airlane.errors import ConfigError
from airlane.frozen import frozen
from airlane.spec.accelerators import GPU_TYPES, parse_accelerator_type
from airlane.spec.suggest import did_you_mean

SILENCE_S = 60.0
# From the early warning to the first moment at which the run must be over (see SlurmOptions.warning_s).
WARNING_MARGIN_S = 30
# sbatch(1), --signal: "an integer between 0 and 65535".
LONGEST_WARNING_S = 65535


@frozen(kw_only=True)
class SlurmOptions:
    """The slurm keys of a profile, read.

    `accelerators` maps a model to its GRES name. `silence_s`: a node is lost after so long without a sign of life.
    `warn_s`: how long before the time limit the run is warned. `python` is an interpreter on the nodes that has
    airlane. `sbatch` are further options as they stand, one each.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    constraint: str | None = None
    exclude: str | None = None
    sbatch: tuple[str, ...] = ()
    time_s: int | None = None
    cpus_per_node: int | None = None
    cpus_per_accelerator: int | None = None
    memory_per_node: str | None = None
    accelerators: Mapping[str, str] = field(default_factory=dict)
    preflight: bool = False
    silence_s: float = SILENCE_S
    warn_s: int | None = None
    python: str | None = None

    @property
    def interpreter(self) -> str:
        """The Python that runs the supervisor and the agents on the nodes."""
        return self.python or sys.executable

    def warning_s(self, stop_grace_s: float) -> int:
        """How long before the time limit Slurm warns: long enough to stop the command in peace and to say the end."""
        wanted = self.warn_s if self.warn_s is not None else int(stop_grace_s) + WARNING_MARGIN_S
        return min(wanted, LONGEST_WARNING_S)

    def cpus(self, accelerator_type: str, accelerators_per_node: int) -> int | None:
        """CPUs on each node; None leaves it to the cluster's defaults."""
        if accelerator_type.startswith("CPU_"):
            return accelerators_per_node
        if self.cpus_per_accelerator is not None:
            return self.cpus_per_accelerator * accelerators_per_node
        return self.cpus_per_node

    def gres(self, accelerator_type: str) -> str | None:
        """The GRES that accelerators of this type are, as "gpu:h100"; None for CPUs."""
        parsed = parse_accelerator_type(accelerator_type)
        model = parsed.model if parsed is not None else accelerator_type.rpartition("x")[2]
        return None if accelerator_type.startswith("CPU_") else self.accelerators.get(model, "gpu")


def read_options(options: Mapping[str, Any]) -> SlurmOptions:
    """The options of a profile.

    Raises:
        ConfigError: a key is not known or its value is wrong; the message names it.
    """
    values: dict[str, Any] = {}
    for key, value in options.items():
        if key not in _READERS:
            near = did_you_mean(key, _READERS)
            known = f"options: {', '.join(_READERS)}"
            raise ConfigError(f"the slurm backend has no option {key!r}", hint=near or known)
        name, reader = _READERS[key]
        values[name] = reader(value, key)
    if values.get("cpus_per_node") and values.get("cpus_per_accelerator"):
        raise ConfigError(
            "cpus_per_node and cpus_per_accelerator both say how many CPUs a node gets", hint="leave one of them out"
        )
    read = SlurmOptions(**values)
    _check_further(read)
    return read


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]+", value) or value.startswith("-"):
        raise ConfigError(f"{key} must be text without spaces, not {value!r}")
    return value


def _constraint(value: Any, key: str) -> str:
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        raise ConfigError(f"{key} must be text on one line, not {value!r}")
    return value.strip()


def _exclude(value: Any, key: str) -> str:
    if isinstance(value, list) and value:
        return ",".join(_text(item, key) for item in value)
    return _text(value, key)


def _whole(value: Any, key: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{key} must be a whole number above 0, not {value!r}")
    return value


def _seconds(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < float("inf"):
        raise ConfigError(f"{key} must be seconds, 1 or more, not {value!r}")
    return float(value)


def _warning(value: Any, key: str) -> int:
    if _whole(value, key) > LONGEST_WARNING_S:
        raise ConfigError(f"{key} must be seconds, at most {LONGEST_WARNING_S}, not {value!r}")
    return int(value)


def _time(value: Any, key: str) -> int:
    seconds = read_duration(value) if isinstance(value, str) else None
    if not seconds:
        hint = 'write it as Slurm does: "8:00:00" is 8 hours, "2-0" two days, "90" ninety minutes'
        raise ConfigError(f"{key} must be a length of time, not {value!r}", hint=hint)
    return seconds


def _memory(value: Any, key: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"\d+[KMGT]?", value):
        raise ConfigError(f"{key} must be a size, not {value!r}", hint='write "200G"; "0" is all the memory of a node')
    return value


def _accelerators(value: Any, key: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"{key} must be a table, not {value!r}", hint=f'write {key} = {{ H100 = "gpu:h100" }}')
    models = {parsed.model for name in GPU_TYPES if (parsed := parse_accelerator_type(name)) is not None}
    for model, gres in value.items():
        if model not in models:
            near = did_you_mean(model, models)
            raise ConfigError(f"{key}: there is no accelerator {model!r}", hint=near or ", ".join(sorted(models)))
        if not isinstance(gres, str) or not re.fullmatch(r"[A-Za-z_][\w.-]*(:[A-Za-z_][\w.-]*)?", gres):
            raise ConfigError(
                f"{key}.{model} must be the name of a GRES, not {gres!r}",
                hint='write "gpu:h100", without a count; the names: sinfo -o %G',
            )
    return dict(value)


def _preflight(value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{key} must be true or false, not {value!r}")
    return value


def _python(value: Any, key: str) -> str:
    if not isinstance(value, str) or not value.startswith("/") or "\n" in value:
        raise ConfigError(f"{key} must be the absolute path of an interpreter, not {value!r}")
    return value


def _further(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{key} must be a list, not {value!r}", hint=f'write {key} = ["--hint=nomultithread"]')
    for item in value:
        if not isinstance(item, str) or not re.fullmatch(r"--?[A-Za-z][^\n]*", item):
            raise ConfigError(
                f"{key}: {item!r} is no option of sbatch", hint='write one option an item: "--hint=nomultithread"'
            )
    return tuple(value)


_READERS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "partition": ("partition", _text),
    "account": ("account", _text),
    "qos": ("qos", _text),
    "reservation": ("reservation", _text),
    "constraint": ("constraint", _constraint),
    "exclude": ("exclude", _exclude),
    "sbatch": ("sbatch", _further),
    "time": ("time_s", _time),
    "cpus_per_node": ("cpus_per_node", _whole),
    "cpus_per_accelerator": ("cpus_per_accelerator", _whole),
    "memory_per_node": ("memory_per_node", _memory),
    "accelerators": ("accelerators", _accelerators),
    "preflight": ("preflight", _preflight),
    "silence_s": ("silence_s", _seconds),
    "warn_s": ("warn_s", _warning),
    "python": ("python", _python),
}

# What the script sets itself, and what a user who wants to change it does instead.
_COMPUTE = "the workload's compute says how much a run gets"
_LEAVE_OUT = "leave it out: Airlane sets it, or needs it unset"
_OWN: dict[str, str] = {
    **dict.fromkeys(("--nodes", "-N", "--gres", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task"), _COMPUTE),
    **dict.fromkeys(("--ntasks", "-n", "--ntasks-per-node", "--ntasks-per-gpu", "--ntasks-per-core"), _LEAVE_OUT),
    **dict.fromkeys(("--cpus-per-task", "-c", "--cpus-per-gpu"), "set cpus_per_node or cpus_per_accelerator"),
    **dict.fromkeys(("--time", "-t"), "set time, or timeout_minutes in the workload"),
    **dict.fromkeys(("--signal",), "set warn_s"),
    **dict.fromkeys(
        [
            "--output",
            "-o",
            "--error",
            "-e",
            "--input",
            "-i",
            "--open-mode",
            "--job-name",
            "-J",
            "--comment",
            "--requeue",
            "--no-requeue",
            "--no-kill",
            "-k",
            "--array",
            "-a",
            "--wrap",
            "--parsable",
            "--export",
            "--export-file",
            "--chdir",
            "-D",
            "--test-only",
            "--wait",
            "-W",
            "--help",
            "-h",
            "--version",
            "-V",
            "--clusters",
            "-M",
        ],
        _LEAVE_OUT,
    ),
}
# Options that have a key: to be given in one of the two places.
_KEYED: dict[str, str] = {
    "--partition": "partition",
    "-p": "partition",
    "--account": "account",
    "-A": "account",
    "--qos": "qos",
    "-q": "qos",
    "--reservation": "reservation",
    "--constraint": "constraint",
    "-C": "constraint",
    "--exclude": "exclude",
    "-x": "exclude",
    "--mem": "memory_per_node",
    "--mem-per-cpu": "memory_per_node",
    "--mem-per-gpu": "memory_per_node",
}
_SHORTEST_ABBREVIATION = len("--xxx")


def _check_further(options: SlurmOptions) -> None:
    """Refuse an sbatch option that would undo what the script or another key sets."""
    for item in options.sbatch:
        name = _option_name(item)
        if name in _KEYED and getattr(options, _KEYED[name]) is not None:
            raise ConfigError(f"sbatch: {item!r} and {_KEYED[name]} set the same", hint="leave one of them out")
        own = next((known for known in _OWN if _means(name, known)), None)
        if own is not None:
            raise ConfigError(f"sbatch: {item!r} is not for a profile to set", hint=_OWN[own])


def _option_name(item: str) -> str:
    if item.startswith("--"):
        return re.split(r"[=\s]", item, maxsplit=1)[0]
    return item[:2]


def _means(name: str, known: str) -> bool:
    """Whether sbatch would take `name` for `known`: it accepts the beginning of a long option, too."""
    if name == known:
        return True
    long = name.startswith("--") and name not in _KEYED and len(name) >= _SHORTEST_ABBREVIATION
    return long and known.startswith(name)
