"""sbatch's own words for "no", as errors with a next step. Pure but for the question which partitions there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from airlane.backends.slurm.programs import Completed
from airlane.errors import AirError, BackendError, CapacityError, ConfigError, SlurmUnavailableError
from airlane.spec.suggest import did_you_mean

_UNREACHABLE = re.compile(
    "Unable to contact slurm controller|Connection refused|Connection timed out|Socket timed out"
    "|Zero Bytes were transmitted|in standby mode|communication connection failure|slurmctld.*not respond"
    "|Message receive failure|Unable to establish configuration source|Could not establish a configuration",
    re.IGNORECASE,
)
_PREFIX = re.compile(r"^\w+: (?:error: |fatal: )?(?:Batch job submission failed: )?")

# The words, whether a person asked for what the cluster lacks (or it can never be), and what to do about it.
_REFUSALS: tuple[tuple[str, type[AirError], str, str], ...] = (
    (
        "Invalid account or account/partition",
        ConfigError,
        "Slurm does not let this user submit with this account and partition",
        "sacctmgr show associations user=$USER; then set account in the profile",
    ),
    ("Invalid account", ConfigError, "Slurm does not know this account", "sacctmgr show associations user=$USER"),
    (
        "Invalid qos",
        ConfigError,
        "Slurm does not know this QOS, or this user may not use it",
        "sacctmgr show associations user=$USER format=account,qos; then set qos in the profile",
    ),
    ("reservation is invalid", ConfigError, "Slurm has no such reservation now", "scontrol show reservation"),
    (
        "Invalid feature specification",
        ConfigError,
        "no node has the features of constraint",
        "sinfo -o '%N %f' shows those there are",
    ),
    ("Invalid node name", ConfigError, "Slurm does not know a node of exclude, or of sbatch's own options", "sinfo -N"),
    ("Invalid license", ConfigError, "Slurm does not know a license of sbatch's own options", "scontrol show licenses"),
    (
        "generic resource",
        CapacityError,
        "the cluster has no such GRES as the run's accelerators are asked for",
        "sinfo -o '%P %G' shows those there are; then set accelerators in the profile",
    ),
    (
        "Memory specification can not be satisfied",
        CapacityError,
        "no node has the memory of memory_per_node",
        "sinfo -o '%P %m' shows what nodes have, in MB",
    ),
    (
        "node configuration is not available",
        CapacityError,
        "no node of the partition can ever be what the run asks for",
        "sinfo -o '%P %D %c %m %G' shows the nodes: number, CPUs, memory in MB, GRES",
    ),
    (
        "Node count specification invalid|More processors requested than permitted|Requested partition configuration",
        CapacityError,
        "the run asks for more than the partition has",
        "sinfo -o '%P %D %c' shows the partitions: nodes, CPUs of a node",
    ),
    (
        "time limit is invalid|exceeds (the )?partition.*time|Requested time limit",
        ConfigError,
        "the run may take longer than the partition allows",
        "set time in the profile, or timeout_minutes and max_retries in the workload; the limits: sinfo -o '%P %l'",
    ),
    (
        "violates accounting/QOS policy|AssocGrp|QOSMax|MaxSubmitJob",
        CapacityError,
        "a limit of the account or QOS forbids the run",
        "sacctmgr show qos; fewer nodes, or another qos in the profile",
    ),
    (
        "unrecognized option|invalid option|Invalid --|ambiguous|requires an argument",
        ConfigError,
        "sbatch does not take an option of the profile",
        "sbatch --help; then correct the profile",
    ),
    (
        "group not permitted to use this partition|Access/permission denied",
        ConfigError,
        "Slurm does not let this user into the partition",
        "scontrol show partition shows AllowGroups and AllowAccounts; set another partition in the profile",
    ),
    (
        "nodes not in this partition",
        ConfigError,
        "sbatch's own options name nodes that are not in the partition",
        "sinfo -N -o '%N %P'",
    ),
    (
        "Required (node|partition) not available",
        BackendError,
        "what the run needs is down, drained or reserved now",
        "sinfo -R says why; then try again",
    ),
)


def unreachable(done: Completed) -> SlurmUnavailableError | None:
    """The error for a controller that did not answer, if that is what the program says."""
    if not _UNREACHABLE.search(done.stderr):
        return None
    return SlurmUnavailableError(f"Slurm does not answer: {_said(done)}", hint="scontrol ping; then try again")


def refusal(done: Completed, partitions: Callable[[], Sequence[str]]) -> AirError:
    """The error for a submission that did not succeed."""
    if (error := unreachable(done)) is not None:
        return error
    said = _said(done)
    if (match := re.search(r"invalid partition specified: (\S+)", done.stderr)) or "Invalid partition" in done.stderr:
        return no_partition(match[1] if match else None, partitions())
    for words, kind, message, hint in _REFUSALS:
        if re.search(words, done.stderr, re.IGNORECASE):
            return kind(f"{message} (sbatch: {said})", hint=hint)
    return BackendError(f"sbatch refused the run: {said}", hint="sbatch --test-only SCRIPT says it again")


def no_default_partition(known: Sequence[str]) -> ConfigError:
    """The profile names no partition, and the cluster has no default."""
    return ConfigError(
        "the cluster has no default partition", hint=f"set partition in the profile; {_there_are(known)}"
    )


def no_partition(name: str | None, known: Sequence[str]) -> ConfigError:
    """There is no partition of that name; None where sbatch does not say which."""
    there_are = _there_are(known)
    if name is None:
        return ConfigError("the cluster has no such partition", hint=f"set partition in the profile; {there_are}")
    near = did_you_mean(name, known)
    return ConfigError(f"the cluster has no partition {name!r}", hint=f"{near} {there_are}" if near else there_are)


def _there_are(partitions: Sequence[str]) -> str:
    return f"partitions: {', '.join(partitions)}" if partitions else "sinfo shows the partitions"


def _said(done: Completed) -> str:
    """The last line that says something, without the program's own prefix."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip() and not line.startswith("Try ")]
    return _PREFIX.sub("", lines[-1]) if lines else f"exit code {done.exit_code}"
