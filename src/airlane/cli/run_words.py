"""What a run is, in words that the screens share."""

from __future__ import annotations

from pathlib import Path

from airlane.cli.layout import hanging
from airlane.cli.screen import Look
from airlane.cli.words import count, duration
from airlane.spec.accelerators import ANY_MODEL, AcceleratorKind, parse_accelerator_type
from airlane.store.records import Cause, EnvironmentRecord, GitState, ImageRecord, RunRecord
from airlane.store.runs import RunView
from airlane.store.states import Phase, State

_STATE_STYLES = {
    State.PENDING: "yellow",
    State.RUNNING: "cyan",
    State.SUCCESS: "green",
    State.FAILED: "red",
    State.TIMEDOUT: "red",
    State.CANCELED: "yellow",
}
_SHORT_DIGEST = 8
_SHORT_KEY = 6


def painted_state(state: State, look: Look, *, columns: int = 0) -> str:
    return look.paint(f"{state:<{columns}}", _STATE_STYLES[state], "bold")


def compute_words(accelerators: int, accelerator_type: str, *, simulate: bool = False) -> str:
    """What a run computes on: "16 × H100", "8 GPUs", "4 CPU cores", "8 × H100 (simulated)"."""
    known = parse_accelerator_type(accelerator_type)
    if known is not None and known.kind is AcceleratorKind.CPU:
        words = count(accelerators, "CPU core")
    elif known is not None and known.model == ANY_MODEL:
        words = count(accelerators, "GPU")
    else:
        words = f"{accelerators} × {known.model if known else accelerator_type}"
    return f"{words} (simulated)" if simulate else words


def place_words(record: RunRecord) -> str:
    return record.profile or record.backend


def git_words(git: GitState | None) -> str:
    """Where the code is from: "main@4be2d10 + 3 changed files"; nothing where it has no commit."""
    if git is None or git.commit is None:
        return ""
    at = f"{git.branch}@{git.commit[:7]}" if git.branch else git.commit[:7]
    return f"{at} + {count(git.changed_files, 'changed file')}" if git.dirty else at


def environment_words(environment: EnvironmentRecord) -> str:
    """What is in the environment: "AI5 + fsspec>=2024.6.1, einops   key 51ac03"."""
    added = ", ".join(environment.dependencies)
    key = f"   key {environment.key[:_SHORT_KEY]}" if environment.key else ""
    return f"{environment.base}{f' + {added}' if added else ''}{key}"


def image_words(image: ImageRecord) -> str:
    """What an image is, beside its digest: its reference, or the archive's name."""
    latest = "  (looked up again on each node)" if image.pull_always else ""
    return f"{home_relative(Path(image.url)) if image.is_archive else image.url}{latest}"


def short_image_digest(digests: tuple[str, ...]) -> str:
    """The beginning of an image's digest, without the name of its kind; nothing where it is not known yet."""
    return short_digest(digests[0].partition(":")[2]) if digests else ""


def short_digest(digest: str) -> str:
    return digest[:_SHORT_DIGEST]


def status_words(view: RunView) -> str:
    """What stands beside the state: the cause of its end, or what the run is doing."""
    if view.state.terminal:
        return cause_words(view.cause) if view.state is not State.SUCCESS else ""
    phase = view.phase or Phase.PREPARING
    detail = view.status.detail if view.status else None
    words = "" if phase is Phase.RUNNING and view.state is State.RUNNING else str(phase)
    return ": ".join(part for part in (words, detail or "") if part)


def cause_words(cause: Cause | None) -> str:
    """The cause in one line: "node 1 exited with code 1 (CUDA out of memory)"."""
    if cause is None:
        return ""
    first = cause.summary.splitlines()[0] if cause.summary else str(cause.kind)
    return f"{first} ({cause.finding})" if cause.finding else first


def cause_lines(cause: Cause, run_id: str, look: Look, *, indent: str = "  ") -> list[str]:
    """The whole cause: what happened, the lines that show it, what else it stopped, and what to type."""
    happened = cause.summary.splitlines() or [str(cause.kind)]
    if cause.host and cause.host not in cause.summary:
        happened[0] += f" on {cause.host}"
    if cause.after_s is not None:
        happened[0] += f", {duration(cause.after_s)} after start"
    rows = [(indent, line) for line in happened]
    rows += [(f"{indent}  ", look.paint(line, "bold")) for line in cause.log_lines]
    if cause.collateral_nodes:
        rows.append((indent, f"{_nodes(cause.collateral_nodes)} stopped because of it"))
    if cause.node is not None:
        node = f" --node {cause.node}" if cause.node else ""
        rows.append((f"{indent}full log   ", f"air logs {run_id}{node}"))
    first = f"{indent}try        "
    for line in (cause.hint or "").splitlines():
        rows.append((first, line))
        first = " " * len(first)
    return [line for head, text in rows for line in hanging(head, text, look, indent=len(head))]


def home_relative(path: Path) -> str:
    """A path with ~ for the home folder of the user."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


def _nodes(nodes: tuple[int, ...]) -> str:
    if len(nodes) == 1:
        return f"node {nodes[0]} was"
    return f"nodes {', '.join(map(str, nodes[:-1]))} and {nodes[-1]} were"


def metric_words(view: RunView, *, steps: bool) -> list[str]:
    """The run's last metric in a word or two, if it has one."""
    last = view.status.last_metric if view.status is not None else None
    if last is None:
        return []
    return [f"{last.name} {last.value:.4g}" + (f" (step {last.step})" if steps else "")]
