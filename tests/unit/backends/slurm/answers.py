"""What Slurm's programs said, recorded from a lab of three nodes with Slurm 22.05.8, and a player for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airlane.backends.slurm.programs import Completed
from airlane.backends.slurm.scheduler import Slurm

# squeue --noheader --states=all --Format=... with SLURM_TIME_FORMAT=%s
QUEUE = """\
17|CANCELLED|1796067952|1796067979|0|scan3|scan3|UNLIMITED|None|
14|FAILED|1796067952|1796067952|0|scan2|scan2|UNLIMITED|NonZeroExitCode|
15|FAILED|1796067952|1796067952|0|scan2|scan2|UNLIMITED|JobLaunchFailure|
36|NODE_FAIL|1796068161|1796068194|0|scan3|scan3|UNLIMITED|NodeDown|
37|PENDING|1796068315|NONE|1|n/a||UNLIMITED|BeginTime|
26|PENDING|N/A|N/A|0|n/a||UNLIMITED|ReqNodeNotAvail, UnavailableNodes:scan3|
40|RUNNING|1796068188|NONE|0|scan1|scan[1-2]|1:00:00|None|
29|TIMEOUT|1796068005|1796068068|0|scan1|scan1|1:00|TimeLimit|
39|PREEMPTED|1796068161|1796068188|0|scan1|scan1|UNLIMITED|None|
30|COMPLETED|1796068143|1796068143|0|scan1|scan1|5:00|None|
"""

# scontrol --oneliner show job, shortened where nothing is read.
SHOWN_EXIT_3 = """\
JobId=14 JobName=false.sh UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A Priority=4294901748 Nice=0 Account=(null) \
QOS=(null) JobState=FAILED Reason=NonZeroExitCode Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 \
ExitCode=3:0 RunTime=00:00:00 TimeLimit=UNLIMITED TimeMin=N/A SubmitTime=1796067952 StartTime=1796067952 \
EndTime=1796067952 Deadline=N/A SuspendTime=None SecsPreSuspend=0 LastSchedEval=1796067952 Scheduler=Main \
Partition=gpu AllocNode:Sid=localhost:6481 ReqNodeList=(null) ExcNodeList=(null) NodeList=scan2 BatchHost=scan2 \
NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=1,node=1,billing=1 Command=/home/ada/false.sh \
WorkDir=/home/ada/a b=c StdErr=/dev/null StdIn=/dev/null StdOut=/dev/null Power=
"""
SHOWN_PREEMPTED = """\
JobId=39 JobName=ok.sh JobState=PREEMPTED Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 \
ExitCode=0:15 RunTime=00:00:27 TimeLimit=02:00:00 TimeMin=N/A StartTime=1796068161 EndTime=1796068188 Deadline=N/A \
PreemptEligibleTime=1796068161 PreemptTime=1796068188 SuspendTime=None Partition=lowc NodeList=scan1 BatchHost=scan1 \
NumNodes=1 Comment=airlane run x1  WorkDir=/home/ada Power=
"""
SHOWN_UNAVAILABLE = """\
JobId=26 JobName=ok.sh JobState=PENDING Reason=ReqNodeNotAvail,_UnavailableNodes:scan3 Dependency=(null) Requeue=0 \
Restarts=0 ExitCode=0:0 TimeLimit=UNLIMITED StartTime=Unknown EndTime=Unknown Partition=gpu ReqNodeList=scan3 \
NodeList= NumNodes=1 WorkDir=/home/ada
"""
SHOWN_NO_OUTPUT = """\
JobId=31 JobName=false.sh JobState=FAILED Reason=JobLaunchFailure Requeue=1 Restarts=0 ExitCode=0:53 \
StartTime=1796068143 EndTime=1796068143 Partition=high NodeList=scan1 BatchHost=scan1 StdOut=/nowhere/x/y.log
"""

PARTITIONS = """\
PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL Default=YES QoS=N/A DefaultTime=NONE GraceTime=0 Hidden=NO \
MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 Nodes=scan[1-3] PreemptMode=REQUEUE State=UP TotalCPUs=24 TotalNodes=3
PartitionName=small AllowGroups=ALL AllowAccounts=ALL Default=NO QoS=N/A DefaultTime=NONE GraceTime=0 Hidden=NO \
MaxNodes=1 MaxTime=00:10:00 MinNodes=0 Nodes=scan[1-2] PreemptMode=OFF State=UP TotalCPUs=16 TotalNodes=2
PartitionName=off AllowGroups=ALL AllowAccounts=ALL Default=NO QoS=N/A DefaultTime=NONE GraceTime=0 Hidden=NO \
MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 Nodes=scan3 PreemptMode=CANCEL State=DOWN TotalCPUs=8 TotalNodes=1
"""
GROUPS = """\
1|8|4000|down*|gpu:2|scan3
2|8|4000|idle|gpu:2|scan[1-2]
"""
NODE_DOWN = """\
NodeName=scan3 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=1.32 Gres=gpu:2 NodeAddr=scan3 \
OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=4000 AllocMem=0 FreeMem=15487 Sockets=8 Boards=1 \
State=DOWN+NOT_RESPONDING ThreadsPerCore=1 Partitions=gpu,low BootTime=1796067306 \
CfgTRES=cpu=8,mem=4000M,billing=8 AllocTRES= Reason=Not responding [root@1796068194]
"""

NO_SUCH_JOB = "slurm_load_jobs error: Invalid job id specified\n"
REFUSED = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
NO_ACCOUNTING = "Slurm accounting storage is disabled\n"


class Played:
    """Gives each program's recorded answer, and keeps what was asked."""

    def __init__(self, **answers: Completed | Exception) -> None:
        self._answers = answers
        self.commands: list[tuple[str, ...]] = []
        self.timeouts: list[float] = []
        self.envs: list[Mapping[str, str]] = []

    def __call__(self, command: Sequence[str], timeout_s: float, env: Mapping[str, str]) -> Completed:
        self.commands.append(tuple(command))
        self.timeouts.append(timeout_s)
        self.envs.append(env)
        words = [command[0], *(word for word in command[1:] if not word.startswith("-") and word != "show")]
        answer = self._answers.get("_".join(words[:2]), self._answers.get(command[0]))
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            raise AssertionError(f"nothing is recorded for {command}")
        return answer


def said(stdout: str) -> Completed:
    return Completed(0, stdout, "")


def failed(stderr: str, code: int = 1) -> Completed:
    return Completed(code, "", stderr)


def lab_cluster(**changes: Completed | Exception) -> Slurm:
    """A cluster whose partitions and nodes are those of the lab."""
    answers: dict[str, Completed | Exception] = {"scontrol_partition": said(PARTITIONS), "sinfo": said(GROUPS)}
    return Slurm(Played(**(answers | changes)), {})
