"""What Slurm is told about the lab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

GPU_TYPE = "h100"
SLURMD_PORT = 6818
SLURMDBD_PORT = 6819


@dataclass(frozen=True)
class ClusterShape:
    """What the lab's cluster has; every node is alike."""

    nodes: int = 3
    cpus: int = 8
    gpus: int = 2
    memory_mb: int = 8000
    # How long the controller remembers an ended job.
    min_job_age_s: int = 300
    # With slurmdbd: sacct answers.
    accounting: bool = False
    # Lines for slurm.conf; of a parameter given twice, Slurm takes the last.
    extra_conf: str = ""


_SLURM_CONF = """\
ClusterName={cluster}
SlurmctldHost={controller}({address})
SlurmdPort={slurmd_port}
AuthType=auth/munge
# A job that is started again waits until the credentials of its last start have expired.
AuthInfo=socket={folder}/munge.socket,cred_expire=15
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
GresTypes=gpu
SlurmdParameters=config_overrides
# Everything that a test would wait for is quick.
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1
KillWait=5
MessageTimeout=5
SlurmdTimeout=15
MinJobAge={min_job_age_s}
ReturnToService=2
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={node_names} NodeAddr={node_addresses} CPUs={cpus} RealMemory={memory_mb} {gres}State=UNKNOWN
PartitionName=DEFAULT Nodes=ALL State=UP MaxTime=INFINITE OverSubscribe=NO PriorityTier=10 PreemptMode=OFF
PartitionName=main Default=YES
PartitionName=short MaxTime=1
PartitionName=requeued PriorityTier=1 PreemptMode=REQUEUE
PartitionName=canceled PriorityTier=1 PreemptMode=CANCEL GraceTime=3
PartitionName=urgent PriorityTier=20
"""
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={accounting}
AccountingStoragePass={folder}/munge.socket
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
"""
_SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost={accounting}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
CommitDelay=1
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""


def write_configuration(
    folder: Path,
    shape: ClusterShape,
    *,
    cluster: str,
    controller: tuple[str, str],
    accounting: str,
    nodes: Sequence[tuple[str, str]],
) -> None:
    """Writes slurm.conf and what belongs beside it; machines are pairs of a name and an address."""
    text = _SLURM_CONF.format(
        cluster=cluster,
        slurmd_port=SLURMD_PORT,
        folder=folder,
        controller=controller[0],
        address=controller[1],
        node_names=",".join(name for name, _ in nodes),
        node_addresses=",".join(address for _, address in nodes),
        cpus=shape.cpus,
        memory_mb=shape.memory_mb,
        gres=f"Gres=gpu:{GPU_TYPE}:{shape.gpus} " if shape.gpus else "",
        min_job_age_s=shape.min_job_age_s,
    )
    if shape.accounting:
        text += _ACCOUNTING.format(accounting=accounting, folder=folder)
        file = folder / "slurmdbd.conf"
        file.write_text(_SLURMDBD_CONF.format(accounting=accounting, folder=folder), encoding="utf-8")
        file.chmod(0o600)
    (folder / "slurm.conf").write_text(f"{text}{shape.extra_conf}\n", encoding="utf-8")
    devices = f"{folder}/dev/gpu[0-{shape.gpus - 1}]" if shape.gpus > 1 else f"{folder}/dev/gpu0"
    gres = f"Name=gpu Type={GPU_TYPE} Count={shape.gpus} File={devices}\n" if shape.gpus else ""
    (folder / "gres.conf").write_text(gres, encoding="utf-8")
