"""What the library would answer, made by hand: these tests look at the words and exit codes of the commands alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airlane.api import Finding, LogChunk, PhaseChanged, StatusChanged
from airlane.api.shelves import ServerPage
from airlane.environment import EnvironmentInfo
from airlane.spec.load import load_text
from airlane.store.records import GitState
from airlane.store.runs import RunView
from airlane.store.states import Phase, State

from .made_runs import NOW, RECORD, succeeded

WORKLOAD = """\
experiment_name: ray-train-distributed
compute:
  num_accelerators: 16
  accelerator_type: GPU_8xH100
environment:
  version: AI5
  dependencies: [fsspec>=2024.6.1]
command: |
  set -x
  python train.py
"""


def made_plan() -> Any:
    """A plan of two nodes."""
    loaded = load_text(WORKLOAD, file="conf/train.yaml", base_dir=Path("/"))
    return SimpleNamespace(
        loaded=loaded,
        workload=loaded.workload,
        nodes=2,
        accelerators_per_node=8,
        environment=SimpleNamespace(
            base="AI5",
            dependencies=("fsspec>=2024.6.1",),
            key="51ac03d2e9aa",
            cached=True,
            python_version="3.11",
        ),
        snapshot=SimpleNamespace(
            digest="a1f3c9e2b7",
            files=142,
            size_bytes=1_200_000,
            git=GitState("4be2d10aa9", "main", None, dirty=True, changed_files=3),
        ),
        variables=tuple(
            {
                "NODE_RANK": str(node),
                "NUM_NODES": "2",
                "WORLD_SIZE": "16",
                "LOCAL_WORLD_SIZE": "8",
                "MASTER_ADDR": "<first node>",
                "MASTER_PORT": "<free port>",
                "RAY_TMPDIR": ("/tmp/a", "/tmp/b")[node],
            }
            for node in range(2)
        ),
        command=loaded.workload.command,
        backend_lines=("16 × H100 on 2 nodes of Slurm's partition gpu (9 of 12 free now)",),
        script=None,
        record=RECORD,
        refusal=None,
        environment_there=None,
        warnings=("permissions are kept in the run's record and mean nothing here",),
    )


class MadeRun:
    """A run whose updates and logs are given."""

    def __init__(
        self,
        view: RunView,
        *,
        updates: Sequence[Any] = (),
        chunks: Sequence[bytes] = (),
        created: bool = True,
        raises: BaseException | None = None,
    ) -> None:
        self.id = view.record.id
        self.created = created
        self._view, self._updates, self._chunks, self._raises = view, updates, chunks, raises
        self.asked: dict[str, Any] = {}

    def view(self) -> RunView:
        return self._view

    def watch(self) -> Iterator[Any]:
        yield from self._updates
        if self._raises:
            raise self._raises

    def logs(self, **asked: Any) -> Iterator[bytes]:
        self.asked = asked
        yield from self._chunks
        if self._raises:
            raise self._raises

    def interrupt(self, *_words: Any, **_asked: Any) -> None:
        if self._raises:
            raise self._raises

    def download_logs(self, folder: Path, node: int | None = None) -> list[Path]:
        return [folder / f"node_{n}.log" for n in ((0, 1) if node is None else (node,)) if self._chunks]


class MadeClient:
    """A client that answers with one run, and remembers what it was asked."""

    def __init__(self, run: MadeRun | None = None, views: Sequence[RunView] = ()) -> None:
        self.run = run or MadeRun(succeeded())
        self.views = views
        self.asked: list[tuple[Any, ...]] = []
        self.environments = SimpleNamespace(
            list=lambda: (made_environment(),) if views else (),
            show=lambda _key: made_environment(),
            build=self._build,
            prune=self._prune,
        )
        self.secrets = SimpleNamespace(
            set=lambda ref, value: self.asked.append(("set", ref, value)),
            delete=lambda ref: self.asked.append(("delete", ref)),
            list=lambda: ("hf/token", "wandb/key") if views else (),
        )
        self.page = ServerPage("http://127.0.0.1:5000")
        self.tracking = SimpleNamespace(start=lambda: self.page, stop=lambda: bool(views))

    def plan(self, file: Path, overrides: Sequence[str] = (), **asked: Any) -> Any:
        self.asked.append(("plan", file, tuple(overrides), asked))
        return made_plan()

    def submit(self, plan: Any, *, progress: Callable[[str, str], None], **asked: Any) -> MadeRun:
        self.asked.append(("submit", plan.workload.experiment_name, asked))
        progress("code", "packing 1.2 MB")
        return self.run

    def rerun(self, run_id: str, overrides: Sequence[str], *, progress: Callable[[str, str], None]) -> MadeRun:
        self.asked.append(("rerun", run_id, tuple(overrides)))
        progress("code", "packing 1.2 MB")
        return self.run

    def get(self, run_id: str) -> MadeRun:
        self.asked.append(("get", run_id))
        return self.run

    def list(self, **asked: Any) -> tuple[RunView, ...]:
        self.asked.append(("list", asked))
        return tuple(self.views)

    def cancel(self, ids: Sequence[str]) -> tuple[str, ...]:
        return tuple(ids)

    def cancel_all(self) -> tuple[str, ...]:
        return tuple(view.record.id for view in self.views)

    def doctor(self) -> tuple[Finding, ...]:
        return (
            Finding("sbatch, srun, scontrol", True, "Slurm 23.11", None),
            Finding("sacct", None, "no accounting", "states come from our own files"),
            Finding("tracking", not self.views, "http://mlflow:5000 refused", "set tracking_uri to an address\nor not"),
        )

    def _build(self, plan: Any, *, progress: Callable[[str], None]) -> Any:
        progress("resolving")
        return SimpleNamespace(key=plan.key, folder=Path("/home/x"), duration_s=12.3 if self.views else None)

    def _prune(self, **asked: Any) -> tuple[EnvironmentInfo, ...]:
        self.asked.append(("prune", asked))
        return (made_environment(),) if self.views else ()


def made_environment() -> EnvironmentInfo:
    """An environment used three hours before NOW."""
    return EnvironmentInfo(
        key="51ac03d2e9aabbccddee",
        base="AI5",
        dependencies=("fsspec>=2024.6.1", "einops", "a-package-with-a-name-that-is-quite-long==1.2.3"),
        python_version="3.11",
        platform="linux-x86_64",
        packages=187,
        size_bytes=1_900_000_000,
        created_at=NOW - 86_400,
        last_used_at=NOW - 3 * 3600,
        build_s=12.3,
        moved=("fsspec",),
        folder=Path("/fsx/ada/.air/environments/51ac03d2e9aabbccddee"),
    )


def updates(*chunks: bytes, end: State = State.SUCCESS) -> tuple[Any, ...]:
    """What a watched run tells from its queue to its end."""
    return (
        PhaseChanged(Phase.QUEUED, "2nd in line"),
        StatusChanged(State.RUNNING, State.PENDING),
        PhaseChanged(Phase.RUNNING, None),
        *(LogChunk(0, chunk) for chunk in chunks),
        StatusChanged(end, State.RUNNING),
    )
