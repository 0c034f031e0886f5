"""The command lines that run a node's command in a container, one for each runtime. Pure."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airlane.launch.order import ContainerOrder, Order

DOCKER, PODMAN, APPTAINER, ENROOT = "docker", "podman", "apptainer", "enroot"
# In the order in which a node is searched, when the profile names none.
RUNTIMES = (DOCKER, PODMAN, APPTAINER, ENROOT)
# Their containers are children of a daemon or a monitor, not of who asked for them.
ENGINES = (DOCKER, PODMAN)
STARTED, ENDED = "started", "ended"
_UNLIMITED = ("memlock=-1", "stack=67108864")
# What every bash refuses to have set.
_BASHS_OWN = ("BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID")

# Its stdin brings the variables, then a NUL. $1 is the command's file, $2 the box that it tells its progress in.
_READ_VARIABLES = """\
exec 3<&0 </dev/null
IFS= LC_ALL=C read -r -d '' -u 3 lines || exit 125
eval "$lines"
unset lines
: > "$2/started" || exit 125
"""
# The first process of an engine's container. Whoever holds the other end of its stdin keeps the container alive: at
# the end of the file it exits, and the kernel ends what is left. A line is a request to stop, which unlike a signal
# cannot come too early. A signal to -1 reaches all but the first process.
FIRST_PROCESS = f"""\
{_READ_VARIABLES}\
set -m
(trap '' HUP INT TERM; while read -r -u 3 _; do kill -TERM $$; done; kill -USR1 $$) &
watcher=$!
trap 'exit 137' USR1
trap 'again=1 asked=1; kill -TERM -1' TERM
exec 4>&2 2>/dev/null  # where the shell tells about its jobs
bash -euo pipefail "$1" 2>&4 3<&- 4>&- &
command=$!
exec 4>&-
[ -z "$asked" ] || kill -TERM "$command"
while again=; wait "$command"; status=$?; [ -n "$again" ]; do :; done
kills=0
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  [ -r "$file" ] || continue
  while read -r name value; do [ "$name" != oom_kill ] || kills=$value; done < "$file"
done
echo "$status $kills" > "$2/ended"
kill -KILL "$watcher"
wait "$watcher"
looks=0
while kill -0 -1; do
  read -r -t 0.05 -u 3 _
  [ $? -ne 1 ] || break
  [ -n "$asked" ] || [ $((looks += 1)) -le 4 ] || break
done
exit "$status"
"""
# Where the container's processes are our own descendants, the agent holds them as it holds a bare command.
PLAIN_PROCESS = f"""\
{_READ_VARIABLES}\
exec 3<&-
bash -euo pipefail "$1"
status=$?
echo "$status 0" > "$2/ended"
exit "$status"
"""


class Node:
    """What a node says about itself. `devices` are device files to hand through; None stands for no limit."""

    def __init__(
        self,
        *,
        uid: int,
        gid: int,
        groups: Sequence[int] = (),
        devices: Sequence[str] = (),
        cpus: str | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        self.uid = uid
        self.gid = gid
        self.groups = tuple(group for group in groups if group != gid)
        self.devices = tuple(devices)
        self.cpus = cpus
        self.memory_bytes = memory_bytes


def takers(archive: str) -> tuple[str, ...]:
    """The runtimes that take an archive, by the end of its name."""
    if archive.endswith(".sif"):
        return (APPTAINER,)
    if archive.endswith(".sqsh"):
        return (ENROOT,)
    return (DOCKER, PODMAN, APPTAINER)


def container_name(order: Order) -> str:
    return f"air-{order.run_id}-{order.attempt}-{order.node_rank}"


def box_folder(run_id: str, *, attempt: int, node: int) -> str:
    """The private folder through which a container and its agent tell each other how far they are."""
    return f"/tmp/air-{run_id}-{attempt}-{node}.box"  # noqa: S108 - made 0700 by the agent, which refuses another user's


def box_of(order: Order) -> str:
    return box_folder(order.run_id, attempt=order.attempt, node=order.node_rank)


def container_argv(runtime: str, order: Order, image: str, node: Node, *, limits: bool = True) -> list[str]:
    """Run the order's command in `image`; `limits` asks for locked memory and a large stack, where that is allowed."""
    if runtime == DOCKER:
        return _docker(order, image, node, limits=limits)
    if runtime == PODMAN:
        return _podman(order, image, node, limits=limits)
    if runtime == APPTAINER:
        return _apptainer(order, image)
    return _enroot(order, image, node)


def removal_argv(runtime: str, order: Order) -> list[str]:
    """End a container of an engine, if there is one, and forget it."""
    at_once = ["--time", "0"] if runtime == PODMAN else []  # which else gives SIGTERM ten seconds
    return [runtime, "rm", "--force", *at_once, container_name(order)]


def _docker(order: Order, image: str, node: Node, *, limits: bool) -> list[str]:
    gpus = ["--gpus", '"device=' + ",".join(order.gpus) + '"'] if order.gpus else []
    groups = [] if node.uid == 0 else [word for group in node.groups for word in ("--group-add", str(group))]
    user = ["--user", f"{node.uid}:{node.gid}", *groups]
    users = Mount(f"{box_of(order)}/passwd", "/etc/passwd", readonly=True)
    passwd = [] if node.uid == 0 else users.for_engine()
    return [DOCKER, *_engine_words(order, node, [*user, *gpus], limits=limits), *passwd, *_engine_tail(order, image)]


def _podman(order: Order, image: str, node: Node, *, limits: bool) -> list[str]:
    gpus = [word for gpu in order.gpus for word in ("--device", f"nvidia.com/gpu={gpu}")]
    # For an ordinary user, podman's root is that user: the same uid inside is a mapping, not a --user.
    user = ["--user", "0:0"] if node.uid == 0 else ["--userns", "keep-id"]
    labels = ["--security-opt", "label=disable"]
    return [PODMAN, *_engine_words(order, node, [*user, *labels, *gpus], limits=limits), *_engine_tail(order, image)]


def _engine_words(order: Order, node: Node, own: Sequence[str], *, limits: bool) -> list[str]:
    words = ["run", "--rm", "--interactive", "--pull", "never", "--name", container_name(order)]
    words += ["--label", f"airlane.run={order.run_id}", "--network", "host", "--ipc", "host", *own]
    for limit in _UNLIMITED if limits else ():
        words += ["--ulimit", limit]
    if node.cpus is not None:
        words += ["--cpuset-cpus", node.cpus]
    if node.memory_bytes is not None:
        words += ["--memory", str(node.memory_bytes)]
    for device in node.devices:
        words += ["--device", device]
    for mount in mounts_of(order):
        words += mount.for_engine()
    # By these, whoever finds the agent dead finds the container's first process, too.
    owners = ("AIR_RUN_ID", order.run_id), ("AIR_ATTEMPT", order.attempt), ("NODE_RANK", order.node_rank)
    for name, value in owners:
        words += ["--env", f"{name}={value}"]
    return words


def _engine_tail(order: Order, image: str) -> list[str]:
    container = _container(order)
    return [
        *("--workdir", order.working_folder, "--entrypoint", "bash", *container.arguments, image),
        *("-c", FIRST_PROCESS, "airlane", order.command_file, box_of(order)),
    ]


def _apptainer(order: Order, image: str) -> list[str]:
    container = _container(order)
    gpus = ["--nv"] if order.gpus else []
    binds = [word for mount in mounts_of(order) for word in mount.for_apptainer()]
    return [
        *(APPTAINER, "exec", "--cleanenv", "--no-home", *gpus, *binds, "--pwd", order.working_folder),
        *(*container.arguments, image, "bash", "-c", PLAIN_PROCESS, "airlane", order.command_file, box_of(order)),
    ]


def _enroot(order: Order, image: str, node: Node) -> list[str]:
    container = _container(order)
    mounts = [word for mount in mounts_of(order) for word in mount.for_enroot()]
    devices = [word for device in node.devices for word in Mount(device, device).for_enroot()]
    gpus = ["--env", "NVIDIA_VISIBLE_DEVICES=" + (",".join(order.gpus) or "void")]
    return [
        *(ENROOT, "start", "--rw", *gpus, *mounts, *devices, *container.arguments, image),
        *("bash", "-c", f'cd "$3"\n{PLAIN_PROCESS}'),
        *("airlane", order.command_file, box_of(order), order.working_folder),
    ]


def mounts_of(order: Order) -> list[Mount]:
    """What the container sees of the node."""
    container = _container(order)
    own = [Mount(folder, folder) for folder in (*container.folders, *order.scratch_folders)]
    package = os.path.dirname(os.path.abspath(__file__))
    return [*own, Mount(package, package, readonly=True), *map(_read_mount, container.mounts)]


def _read_mount(mount: str) -> Mount:
    source, target, *options = mount.split(":")
    return Mount(source, target, readonly=options == ["ro"])


class Mount:
    """A folder or file of the node, and where it is inside."""

    def __init__(self, source: str, target: str, *, readonly: bool = False) -> None:
        self._source = source
        self._target = target
        self._readonly = readonly

    def for_engine(self) -> list[str]:
        """Comma-separated, quoted as in a CSV file. Unlike --volume, this makes no folder that is missing."""
        fields = ["type=bind", f"source={self._source}", f"target={self._target}"]
        if self._readonly:
            fields.append("readonly")
        return ["--mount", ",".join(_quoted_field(field) for field in fields)]

    def for_apptainer(self) -> list[str]:
        return ["--bind", f"{self._source}:{self._target}" + (":ro" if self._readonly else "")]

    def for_enroot(self) -> list[str]:
        return ["--mount", f"{self._source}:{self._target}" + (":x-create=auto,bind,ro" if self._readonly else "")]


def _quoted_field(field: str) -> str:
    if not re.search('[",\n]', field):
        return field
    return '"' + field.replace('"', '""') + '"'


def variables_text(variables: Mapping[str, str]) -> bytes:
    """What the first process reads before anything else: neither arguments nor `inspect` show the values."""
    lines = [f"export {name}={_shell_quoted(value)}" for name, value in variables.items() if name not in _BASHS_OWN]
    return "\n".join(lines).encode("utf-8", "surrogateescape") + b"\0"


def _shell_quoted(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def inside_variables(
    runtime: str, order: Order, added: Mapping[str, str], *, user: str, home: str | None
) -> dict[str, str]:
    """The run's variables as they are right inside; the image's own PATH stays. `home` is None for the image's own."""
    variables = {name: value for name, value in added.items() if name not in ("PATH", "VIRTUAL_ENV")}
    variables["CUDA_VISIBLE_DEVICES"] = ",".join(visible_gpus(runtime, order.gpus))
    variables.setdefault("USER", user)
    variables.setdefault("LOGNAME", user)
    if home is not None:
        variables.setdefault("HOME", home)
    return variables


def visible_gpus(runtime: str, gpus: Sequence[str]) -> list[str]:
    """What CUDA calls the granted GPUs inside: where only those are there, indexes begin at 0; UUIDs stay."""
    if runtime == APPTAINER:
        return list(gpus)
    return [str(place) if gpu.isdigit() else gpu for place, gpu in enumerate(gpus)]


def passwd_text(user: str, uid: int, gid: int, home: str) -> str:
    """Who the user is, for programs that look it up (ssh, MPI): an image cannot know."""
    return (
        "root:x:0:0:root:/root:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        f"{user}:x:{uid}:{gid}::{home}:/bin/bash\n"
    )


def _container(order: Order) -> ContainerOrder:
    if order.container is None:
        raise ValueError("the order names no container")
    return order.container
