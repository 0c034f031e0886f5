"""The batch script of a run: one readable file; its body is the run's supervisor. Pure."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from airlane.backends.slurm.durations import write_duration
from airlane.backends.slurm.options import SlurmOptions
from airlane.errors import ConfigError
from airlane.store.paths import RunPaths
from airlane.store.records import RunRecord

# What an attempt may take beside its own timeout: the nodes' agents start, the last words are written.
START_MARGIN_S = 120
RETRY_DELAY_S = 30
# What is free between the last moment of an attempt and the early warning.
END_MARGIN_S = 60
# What a #SBATCH line takes apart.
_SPECIAL = re.compile("[\\s\"'#\\\\]")
EXIT_NOT_SHARED = 78
"""What the script exits with where a node lacks the run folder or the interpreter (EX_CONFIG of sysexits.h)."""


def time_limit_s(record: RunRecord, options: SlurmOptions, max_time_s: int | None) -> int | None:
    """The run's time limit in Slurm, at most the partition's `max_time_s`; None leaves it to the partition's default.

    With a timeout it holds every attempt the run may make, the pauses between them, and the warning before the end.
    """
    limits = record.limits
    wanted = options.time_s
    if limits.timeout_s is not None:
        attempt_s = limits.timeout_s + limits.stop_grace_s + START_MARGIN_S
        pauses_s = limits.max_retries * RETRY_DELAY_S
        attempts_s = attempt_s * (limits.max_retries + 1)
        total_s = attempts_s + pauses_s + END_MARGIN_S + options.warning_s(limits.stop_grace_s)
        wanted = math.ceil(total_s / 60) * 60
    if wanted is None or max_time_s is None:
        return wanted
    return min(wanted, max_time_s)


def batch_script(
    record: RunRecord,
    paths: RunPaths,
    options: SlurmOptions,
    *,
    python: str,
    exclude: tuple[str, ...] = (),
    time_s: int | None,
) -> str:
    """The whole script. `exclude` are hosts to keep away from, beside those of the profile.

    Raises:
        ConfigError: the path of the run folder cannot be written in a batch script.
    """
    _check_path(paths.root)
    settings = "\n".join(f"#SBATCH {line}" for line in _settings(record, paths, options, exclude, time_s))
    return _SCRIPT.format(
        experiment=record.experiment_name,
        run_id=record.id,
        settings=settings,
        python=shlex.quote(python),
        run_folder=shlex.quote(str(paths.root)),
        exit_code=EXIT_NOT_SHARED,
    )


_SCRIPT = """\
#!/bin/bash
# {experiment}: run {run_id} of Airlane. This script is the run: when it ends, its nodes are free.
#   cancel it:   air cancel {run_id}
#   look at it:  air get run {run_id}
{settings}

python={python}
run={run_folder}

# Slurm starts this on the first node of the run: what it needs must be there, too.
if [ ! -d "$run" ]; then
  echo "airlane: $(uname -n) has no $run: set home in the profile to a folder that all nodes share" >&2
  exit {exit_code}
fi
if [ ! -x "$python" ]; then
  echo "airlane: $(uname -n) has no $python: set python in the profile to an interpreter that all nodes share" >&2
  exit {exit_code}
fi

trap '' USR1  # the warning before the time limit, until the supervisor listens to it
exec "$python" -I -m airlane.supervise.batch "$run"
"""


def _settings(
    record: RunRecord, paths: RunPaths, options: SlurmOptions, exclude: tuple[str, ...], time_s: int | None
) -> Iterator[str]:
    yield f"--job-name=air-{record.experiment_name}"
    yield f"--comment={_quoted(f'airlane run {record.id}')}"
    yield f"--output={_quoted(_literal_pattern(paths.supervisor_log))}"
    yield "--open-mode=append"
    yield from _size(record, options)
    for name, value in placement(options, exclude):
        yield f"{name}={_quoted(value) if _SPECIAL.search(value) else value}"
    if time_s is not None:
        yield f"--time={write_duration(time_s)}"
    yield f"--signal=B:USR1@{options.warning_s(record.limits.stop_grace_s)}"
    yield "--requeue"
    yield "--export=ALL"
    yield from options.sbatch


def _size(record: RunRecord, options: SlurmOptions) -> Iterator[str]:
    yield f"--nodes={record.nodes}"
    yield "--ntasks-per-node=1"
    cpus = options.cpus(record.accelerator_type, record.accelerators_per_node)
    if cpus is not None:
        yield f"--cpus-per-task={cpus}"
    gres = options.gres(record.accelerator_type)
    if gres is not None and not record.simulate:
        yield f"--gres={gres}:{record.accelerators_per_node}"
    if options.memory_per_node is not None:
        yield f"--mem={options.memory_per_node}"


def placement(options: SlurmOptions, exclude: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Where a profile wants to be, as options of sbatch and srun with their values."""
    for name in ("partition", "account", "qos", "reservation", "constraint"):
        value = getattr(options, name)
        if value is not None:
            yield f"--{name}", value
    excluded = ",".join([*filter(None, [options.exclude]), *exclude])
    if excluded:
        yield "--exclude", excluded


def _check_path(folder: Path) -> None:
    """A backslash turns Slurm's file name patterns off and is lost; a line break ends the line of the option."""
    if set(str(folder)) & {"\\", "\n", "\r"}:
        raise ConfigError(
            f"Slurm cannot write into {str(folder)!r}: the path holds a backslash or a line break",
            hint="set home in the profile to another folder",
        )


def _literal_pattern(file: Path) -> str:
    """A file name as Slurm's pattern for it: "%" starts a symbol there (sbatch(1), "filename pattern")."""
    return str(file).replace("%", "%%")


def _quoted(text: str) -> str:
    """In double quotes, as sbatch reads a #SBATCH line: a backslash escapes, nothing else is special."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
