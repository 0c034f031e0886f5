"""Running a short program of ours on a Ray cluster, as a job that takes nothing.

The job stays in the cluster's list: one that is deleted right after its end comes back as one that failed (Ray 2.60).
"""

from __future__ import annotations

import base64
import importlib.util
import shlex
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from airlane.cluster.jobs import JobRequest, Jobs, RayJob
from airlane.cluster.rest import Dashboard
from airlane.errors import BackendError

ASK_S = 60.0
_LOOK_EVERY_S = 0.1
# The job's log begins with words of Ray's own, the whole entrypoint among them: this must not stand in it as it is.
_ANSWER = "airlane answers from "
_PROGRAM = (
    "import base64, os, sys, zlib; code = zlib.decompress(base64.b64decode(sys.argv.pop(1))); "
    "print('airlane answers', 'from', os.uname().nodename, flush=True); exec(code)"
)


def ask_node(
    dashboard: Dashboard,
    module: str,
    *arguments: str,
    timeout_s: float = ASK_S,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> tuple[str, str]:
    """The name of the node that ran a module of ours, and what it printed. The module needs only the standard library.

    An argument that is a file of this machine is left out: what the job is started with, everybody may read.

    Raises:
        BackendError: the cluster did not run it, or not in time.
    """
    jobs = Jobs(dashboard)
    travel = [argument for argument in arguments if not Path(argument).is_file()]
    submission_id = jobs.submit(JobRequest(entrypoint=_entrypoint(module, travel), metadata={"name": "air doctor"}))
    deadline = clock() + timeout_s
    while (job := jobs.get(submission_id)) is not None and not job.state.terminal:
        if clock() > deadline:
            jobs.stop(submission_id)
            raise BackendError(f"the cluster ran no job within {timeout_s:g} s", hint="air ray job list")
        pause(_LOOK_EVERY_S)
    return _answer(jobs, job)


def _answer(jobs: Jobs, job: RayJob | None) -> tuple[str, str]:
    if job is None:
        raise BackendError("the cluster has forgotten the job that was to look at it", hint="try again")
    said = b"".join(jobs.log(job)).decode(errors="replace") if job.driver_node_id is not None else ""
    _, found, answer = said.partition(_ANSWER)
    host, _, text = answer.partition("\n")
    if not found:
        lines = [line for line in (job.message or said).splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else str(job.state)
        raise BackendError(f"the cluster did not run a job: {reason}", hint="air ray job list")
    return host.strip(), text


def _entrypoint(module: str, arguments: list[str]) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise BackendError(f"there is no module {module}")
    code = base64.b64encode(zlib.compress(Path(spec.origin).read_bytes(), 9)).decode()
    words = shlex.join(["-I", "-c", _PROGRAM, code, *arguments])
    return f'exec "$(command -v python3 || command -v python)" {words}'
