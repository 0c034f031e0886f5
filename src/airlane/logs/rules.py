"""What known failures look like in a log: one row each, most telling first within a rank."""

from __future__ import annotations

import re

from airlane.frozen import frozen

OWN = 5  # said by Airlane itself
SPECIFIC = 10  # says why by itself
EXCEPTION = 20  # a Python exception that no rule knows
BARE = 25  # a line that looks like one, without its traceback
CONSEQUENCE = 30  # usually there because another rank or program failed
WEAK = 40  # only where nothing better is found

# Where the import name is not the name to install.
_PACKAGES = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dotenv": "python-dotenv",
    "flash_attn": "flash-attn",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
    "google": "protobuf",
}


@frozen
class Rule:
    """A kind of failure. `title` and `hint` may name groups of the pattern, and {package} for a group `module`.

    `exit_codes`: with another exit code it is only a WEAK sign. `killed`: with an out-of-memory kill on the host it
    is the trace that this left. `in_message`: the lines below an exception are searched, too. `after`: how many lines
    below the match belong to it.
    """

    title: str
    pattern: re.Pattern[str]
    hint: str | None = None
    rank: int = SPECIFIC
    exit_codes: frozenset[int] = frozenset()
    killed: bool = False
    in_message: bool = False
    after: int = 0

    def words(self, match: re.Match[str]) -> dict[str, str]:
        """What `title` and `hint` are filled with."""
        groups = {name: value or "" for name, value in match.groupdict().items()}
        module = groups.get("module", "").split(".")[0]
        return {**groups, "package": _PACKAGES.get(module, module)}


def _rule(
    title: str,
    pattern: str,
    hint: str | None = None,
    *,
    rank: int = SPECIFIC,
    exit_codes: tuple[int, ...] = (),
    killed: bool = False,
    in_message: bool = False,
    after: int = 0,
) -> Rule:
    return Rule(title, re.compile(pattern), hint, rank, frozenset(exit_codes), killed, in_message, after)


_SMALLER = "a smaller batch size, gradient accumulation, or activation checkpointing"
_LESS_MEMORY = "fewer data loader workers or smaller batches, or a node with more memory"
_SHM = "num_workers=0 in the data loader, or a larger /dev/shm"
_FREE_PORT = "use $MASTER_PORT, which is free on node 0 in every attempt, or port 0"
_OTHER_NODES = "the log of every node; the one that stopped first is the one to look at"
_HUB_TOKEN = "give the run a token: secrets: {{HF_TOKEN: hf/token}}, after air secrets set hf/token"  # noqa: S105 - a hint

GPU = (
    _rule(
        "CUDA out of memory",
        r"CUDA out of memory|torch(?:\.cuda)?\.OutOfMemoryError|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"
        r"|CUBLAS_STATUS_ALLOC_FAILED|HIP out of memory",
        _SMALLER,
    ),
    _rule(
        "no working GPU driver",
        r"Found no NVIDIA driver|CUDA driver version is insufficient|NVML_ERROR_DRIVER_NOT_LOADED"
        r"|couldn't communicate with the NVIDIA driver|No CUDA GPUs are available",
        "nvidia-smi on that node; air doctor",
    ),
    _rule("this torch has no CUDA", r"Torch not compiled with CUDA enabled", "a CUDA build of torch, or device cpu"),
    _rule(
        "the GPU is newer or older than this torch",
        r"no kernel image is available for execution on the device",
        "a torch build for this GPU",
    ),
    _rule(
        "there is no such GPU",
        r"CUDA error: invalid device ordinal",
        "device indexes of a node go from 0 to LOCAL_WORLD_SIZE - 1",
    ),
    _rule(
        "an index is out of range in a CUDA kernel",
        r"device-side assert triggered",
        "labels and token ids against the sizes of the layers; CUDA_LAUNCH_BLOCKING=1 shows the line",
    ),
    _rule("illegal memory access on the GPU", r"an illegal memory access was encountered", "CUDA_LAUNCH_BLOCKING=1"),
    _rule(
        "the GPU failed",
        r"uncorrectable (?:NVLink |ECC )?error|GPU has fallen off the bus|CUDA error: unspecified launch failure",
        "another node; tell whoever runs this one",
    ),
)

MEMORY = (
    _rule(
        "Ray ended a worker because the node ran out of memory",
        r"ray\.exceptions\.OutOfMemoryError|killed due to (?:memory pressure|the node running low on memory)",
        _LESS_MEMORY,
    ),
    _rule(
        "the data loader ran out of shared memory",
        r"DataLoader worker .*killed by signal: Bus error|insufficient shared memory"
        r"|unable to (?:open|allocate|mmap|resize|write to) .*(?:shared memory|/torch_)",
        _SHM,
    ),
    _rule(
        "a data loader worker was killed",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) (?:is killed by signal: Killed|exited unexpectedly)",
        _LESS_MEMORY,
        killed=True,
    ),
    _rule(
        "out of memory on the host",
        r"^(?:numpy\.[\w.]*)?(?:_Array)?MemoryError\b|std::bad_alloc|DefaultCPUAllocator: can't allocate memory"
        r"|Cannot allocate memory|Unable to allocate [\d.]+ .?i?B for an array",
        _LESS_MEMORY,
    ),
)

FILES = (
    _rule(
        "no space left on device",
        r"No space left on device|\[Errno 28\]|ENOSPC",
        "free space there, or write to another file system",
        in_message=True,
    ),
    _rule("disk quota exceeded", r"Disk quota exceeded|\[Errno 122\]", "delete files there, or ask for more quota"),
    _rule("read-only file system", r"Read-only file system|\[Errno 30\]", "write to $AIR_CHECKPOINT_DIR or $TMPDIR"),
    _rule("too many open files", r"Too many open files|\[Errno 24\]", "ulimit -n 65536 at the top of the command"),
    _rule(
        "no more processes allowed",
        r"fork: (?:retry: )?Resource temporarily unavailable|can't start new thread",
        "fewer workers and threads (OMP_NUM_THREADS), or a higher ulimit -u",
    ),
    _rule(
        "no such file: {path}",
        r"(?:can't open file|FileNotFoundError: \[Errno 2\] No such file or directory:) '(?P<path>[^']+)'",
        "the command starts in $CODE_SOURCE_PATH: check the path, code_source.root_path, and .gitignore",
    ),
    _rule(
        "permission denied: {path}",
        r"PermissionError: \[Errno 13\] Permission denied: '(?P<path>[^']+)'",
        "write to $AIR_CHECKPOINT_DIR or $TMPDIR",
    ),
)

NETWORK = (
    _rule("the port is in use", r"Address already in use|EADDRINUSE|\[Errno 98\]", _FREE_PORT, in_message=True),
    _rule(
        "NCCL or gloo found no network interface",
        r"[Uu]nable to find address for|no socket interface found|Bootstrap : no socket interface",
        "NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME: ip -br addr on that node shows the names",
        in_message=True,
    ),
    _rule(
        "a host name is not known",
        r"Name or service not known|Temporary failure in name resolution|nodename nor servname provided",
        "does this node reach the network (or the name server)?",
    ),
    _rule(
        "the rendezvous on node 0 was not reached",
        r"client socket has timed out after|DistStoreError|RendezvousConnectionError|RendezvousTimeoutError"
        r"|Timed out (?:after \d+ seconds )?waiting for clients",
        "all nodes must start the same launcher with $MASTER_ADDR and $MASTER_PORT",
        rank=CONSEQUENCE,
        in_message=True,
    ),
    _rule(
        "NCCL timeout: a rank did not reach the collective",
        r"Watchdog caught collective operation timeout|Timeout at NCCL work|collective operation timeout: WorkNCCL",
        _OTHER_NODES,
        rank=CONSEQUENCE,
    ),
    _rule(
        "NCCL: a peer went away",
        r"ncclRemoteError|remote process exited or there was a network error|NCCL communicator was aborted",
        _OTHER_NODES,
        rank=CONSEQUENCE,
        in_message=True,
    ),
    _rule(
        "NCCL error",
        r"nccl(?:System|Internal|UnhandledCuda)Error|ncclInvalidUsage|NCCL error in|DistBackendError: NCCL",
        "NCCL_DEBUG=INFO in env_variables shows what NCCL tried",
        rank=CONSEQUENCE - 1,
        in_message=True,
    ),
    _rule(
        "gloo timeout: a rank did not answer",
        r"Timed out waiting \d+ms for (?:recv|send)|Gloo.*[Tt]imed? ?out|gloo.*Connect timeout|Wait timeout: \[?\d+",
        _OTHER_NODES,
        rank=CONSEQUENCE,
    ),
    _rule(
        "gloo: a peer went away",
        r"Connection closed by peer|gloo/transport/tcp.*(?:reset by peer|Broken pipe|refused)|connectFullMesh failed",
        _OTHER_NODES,
        rank=CONSEQUENCE,
    ),
)

HUB = (
    _rule(
        "the model hub refused access",
        r"GatedRepoError|access to (?:it|model .*) is restricted|(?:401|403) Client Error.*(?:huggingface|hf)\.co"
        r"|You are trying to access a gated repo|Invalid (?:user token|username or password)",
        _HUB_TOKEN,
        in_message=True,
    ),
    _rule(
        "the model hub has no such repository",
        r"RepositoryNotFoundError|is not a valid model identifier|Repository Not Found for url|DatasetNotFoundError",
        "check the name; a private one needs HF_TOKEN in secrets",
        in_message=True,
    ),
    _rule(
        "the model hub cannot be reached",
        r"OfflineModeIsEnabled|LocalEntryNotFoundError|couldn't connect to 'https://(?:huggingface|hf)"
        r"|[Oo]ffline mode is enabled|Max retries exceeded.*(?:huggingface|hf)\.co|Couldn't reach .* on the Hub",
        "a local path for the model and data, or HF_HOME with a filled cache",
        in_message=True,
    ),
    _rule("the model hub asks to slow down", r"429 Client Error.*(?:huggingface|hf)\.co", _HUB_TOKEN),
)

PROGRAM = (
    _rule(
        "the module {module} is not installed",
        r"No module named '?(?P<module>[\w.]+)",
        "add {package} to environment.dependencies (or your own code to code_source)",
    ),
    _rule(
        "a package is missing",
        r"(?:ImportError|ModuleNotFoundError).*pip install [`'\"]?(?P<module>[\w\[\]-]+)",
        "add {module} to environment.dependencies",
        in_message=True,
    ),
    _rule(
        "the shared library {library} is missing",
        r"(?P<library>[\w.+-]+\.so[\w.]*): cannot open shared object file",
        "install it on the nodes, or use an image that has it (environment.docker_image)",
        in_message=True,
    ),
    _rule(
        "a library needs a newer system",
        r"version [`'](?P<version>GLIBC(?:XX)?_[\d.]+)' not found",
        "a package built for this system, or an image (environment.docker_image)",
    ),
    _rule(
        "the program did not understand its arguments",
        r"^[\w./-]+: error: (?:unrecognized arguments|the following arguments are required|argument |invalid choice)",
        exit_codes=(2,),
    ),
    _rule(
        "the loss is not a number", r"(?i)\bloss is (?:nan|inf)\b|non-finite loss", "a lower learning rate, or warm-up"
    ),
    _rule(
        "Ray could not be reached",
        r"Failed to connect to GCS|Could not connect to (?:a running )?Ray|Ray cluster.*cannot be reached"
        r"|Could not find any running Ray instance",
        "ray: {{}} in the workload starts a cluster for the command, and sets RAY_ADDRESS",
    ),
    _rule(
        "Ray cannot place what was asked for",
        r"No available node types can fulfill resource request|infeasible resource request",
        "fewer workers, or more accelerators in compute",
    ),
    _rule("{what}", r"^(?P<what>(?:SyntaxError|IndentationError|TabError): .*)"),
)

SHELL = (
    _rule(
        "command not found: {name}",
        r": (?P<name>[^:\s]+): command not found$|^(?P<same>[^:\s]+): command not found$",
        "a package that brings it in environment.dependencies, or its full path",
        exit_codes=(127,),
    ),
    _rule(
        "no such file: {path}",
        r": line \d+: (?P<path>[^:]+): No such file or directory$",
        "the command starts in $CODE_SOURCE_PATH: check the path, and code_source.root_path",
        exit_codes=(1, 127),
    ),
    _rule(
        "permission denied: {path}",
        r": (?:line \d+: )?(?P<path>[^:]+): Permission denied$",
        "chmod +x it, or start it with bash or python",
        exit_codes=(126, 1),
    ),
    _rule(
        "the variable {name} is not set",
        r": (?:line \d+: )?(?P<name>\w+): unbound variable$",
        "set it in env_variables, or write ${{{name}:-}} where it may be missing",
        exit_codes=(1, 127),
    ),
    _rule("the command is not valid bash", r": line \d+: (?:syntax error|unexpected EOF)", exit_codes=(1, 2)),
)

TRACES = (
    _rule("segmentation fault", r"Segmentation fault|Fatal Python error: Segmentation fault|SIGSEGV"),
    _rule("bus error", r"\bBus error\b|SIGBUS", _SHM),
    _rule("the program has instructions this CPU lacks", r"Illegal instruction", "packages built for this CPU"),
    _rule(
        "killed",
        r"(?:line \d+:|^)\s*\d* ?Killed\b|exitcode\s*:? ?-9\b|Signal 9 \(SIGKILL\) received",
        "something ended it with SIGKILL; most often that is memory",
        rank=CONSEQUENCE - 2,
        killed=True,
    ),
    _rule("a library ended the program", r"terminate called after throwing|what\(\):  ", rank=CONSEQUENCE + 1),
    _rule(
        "a Ray actor or worker died",
        r"ActorDiedError|ActorUnavailableError|WorkerCrashedError|NodeDiedError|The actor died|worker died",
        _OTHER_NODES,
        rank=CONSEQUENCE,
        killed=True,
    ),
    _rule(
        "a worker failed",
        r"ChildFailedError|RayTaskError|WorkerGroupError|TrainingFailedError|ControllerError|ProcessRaisedException"
        r"|ProcessExitedException|CalledProcessError|BrokenProcessPool",
        rank=CONSEQUENCE + 2,
    ),
    _rule(
        "rank {number} failed",
        r"^\s*rank\s*: (?P<number>\d+) \(local_rank: \d+\)",
        "the lines of that rank, further up",
        rank=CONSEQUENCE + 1,
        after=1,
    ),
    _rule("interrupted", r"^KeyboardInterrupt\b", rank=WEAK),
    _rule("the program ended itself", r"^SystemExit\b", rank=WEAK),
)

CLUSTER = (_rule("{words}", r"^Ray cluster failed: (?P<words>.*)", rank=OWN, after=6),)  # launch/ray_node.py

RULES: tuple[Rule, ...] = (*CLUSTER, *GPU, *MEMORY, *FILES, *NETWORK, *HUB, *PROGRAM, *SHELL, *TRACES)
