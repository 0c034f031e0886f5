"""From a workload file to exactly what would be done. Planning changes nothing; submitting does what the plan says."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airlane import environment
from airlane.api.user import user_name
from airlane.backends.base import Backend, Compute, NodeHome, NodePlace
from airlane.environment import EnvironmentPlan
from airlane.environment.planning import built
from airlane.errors import AirError, BackendError, CapacityError, ConfigError
from airlane.frozen import frozen
from airlane.spec.load import Loaded, load, load_text
from airlane.spec.models import CodeSource, Workload
from airlane.spec.profiles import Profile
from airlane.spec.ray_section import PUBLIC, RaySpec
from airlane.store.paths import SCRATCH, Home, RunPaths
from airlane.store.records import EnvironmentRecord, ImageRecord, Limits, RayRecord, RunRecord, SnapshotRecord
from airlane.store.runs import RunView
from airlane.supervise.workshop import OF_AN_IMAGE, run_variables

if TYPE_CHECKING:  # a run without code_source pays for none of it
    from airlane.snapshot.model import SnapshotPlan

_UNKNOWN_ID = "<run id>"


@frozen
class RunPlan:
    """Everything that is settled before a run exists.

    `snapshot` is what would be frozen now, or, in a rerun, what was frozen then. `refusal` says why the backend could
    not take the run as it is; submitting raises it. `environment_there` is what the nodes have, where they have an
    environment of their own. `script` is what a scheduler would get. `variables` are each
    node's, with <...> for what only a run has.
    """

    loaded: Loaded
    environment: EnvironmentPlan
    snapshot: SnapshotPlan | SnapshotRecord | None
    record: RunRecord
    variables: tuple[Mapping[str, str], ...]
    backend_lines: tuple[str, ...]
    warnings: tuple[str, ...]
    refusal: AirError | None
    environment_there: str | None = None
    script: str | None = None
    rerun_of: RunView | None = None

    @property
    def workload(self) -> Workload:
        return self.loaded.workload

    @property
    def nodes(self) -> int:
        return self.record.nodes

    @property
    def accelerators_per_node(self) -> int:
        return self.record.accelerators_per_node

    @property
    def command(self) -> str:
        return self.workload.command


@frozen
class Planner:
    """Where plans are made for: a profile, its home and its backend. `user` is who submits."""

    profile: Profile
    home: Home
    backend: Backend
    env: Mapping[str, str]

    def plan(self, file: Path, overrides: Sequence[str], *, simulate: bool, touch: bool) -> RunPlan:
        """The plan of a workload file; with `touch`, digests of its code are kept so that the next plan is fast."""
        return self._plan(load(file, overrides), simulate=simulate, touch=touch)

    def plan_text(self, text: str, *, file: str) -> RunPlan:
        """The plan of a workload that is in no file; `file` says where it came from."""
        return self._plan(load_text(text, file=file, base_dir=Path.cwd()), simulate=False, touch=True)

    def _plan(self, loaded: Loaded, *, simulate: bool, touch: bool) -> RunPlan:
        image = self._plan_image(loaded, touch=touch)
        cache = self.home.snapshots / "digests" if touch else None
        code = _plan_code(loaded.workload.code_source, cache, self.home)
        planned = self._plan_environment(loaded)
        return self._finish(loaded, code, planned, image=image, simulate=simulate, rerun_of=None)

    def replan(self, view: RunView, overrides: Sequence[str]) -> RunPlan:
        """The plan of a run again: its frozen code and its environment, unless an override changes them."""
        text = view.paths.workload.read_text(encoding="utf-8", errors="surrogateescape")
        file = view.record.workload_file
        base_dir = Path(file).parent
        before = load_text(text, file=file, base_dir=base_dir, check_files=False)
        changed = before.workload
        loaded = before
        if overrides:
            loaded = load_text(text, file=file, base_dir=base_dir, overrides=overrides, check_files=False)
            changed = loaded.workload
        code: SnapshotPlan | SnapshotRecord | None = view.record.snapshot
        if changed.code_source != before.workload.code_source:
            code = _plan_code(changed.code_source, self.home.snapshots / "digests", self.home)
        recorded = view.record.environment
        image = self._plan_image(loaded, touch=True)
        if changed.environment == before.workload.environment:
            planned = environment.plan(recorded.base, recorded.dependencies, base_dir=base_dir, home=self.home)
        else:
            planned = self._plan_environment(loaded)
        return self._finish(loaded, code, planned, image=image, simulate=view.record.simulate, rerun_of=view)

    def _plan_image(self, loaded: Loaded, *, touch: bool) -> ImageRecord | None:
        image = loaded.workload.environment.docker_image
        if image is None:
            return None
        from airlane.environment.container import plan_image

        return plan_image(image, self.profile, self.home, touch=touch)

    def _plan_environment(self, loaded: Loaded) -> EnvironmentPlan:
        spec = loaded.workload.environment
        if spec.docker_image is not None:  # nothing to build, nor to keep
            return environment.plan(environment.HOST, (), base_dir=loaded.base_dir, home=self.home)
        base_dir = spec.dependencies_file.parent if spec.dependencies_file is not None else loaded.base_dir
        return environment.plan(spec.version, spec.dependencies or (), base_dir=base_dir, home=self.home)

    def _finish(
        self,
        loaded: Loaded,
        code: SnapshotPlan | SnapshotRecord | None,
        planned: EnvironmentPlan,
        *,
        image: ImageRecord | None,
        simulate: bool,
        rerun_of: RunView | None,
    ) -> RunPlan:
        warnings = loaded.warnings + (() if code is None or isinstance(code, SnapshotRecord) else code.warnings)
        record = self._record(loaded, code, planned, simulate=simulate, warnings=warnings)
        record = replace(record, image=image)
        if rerun_of is not None:
            record = replace(record, rerun_of=rerun_of.record.id)
        lines, found, refusal = self._ask_backend(record)
        return RunPlan(
            loaded=loaded,
            environment=planned,
            snapshot=code,
            record=record,
            variables=_shown_variables(record, planned, self.home, self.backend.planned_home(record)),
            backend_lines=lines,
            warnings=warnings,
            refusal=refusal,
            environment_there=found,
            script=self._script(record) if refusal is None else None,
            rerun_of=rerun_of,
        )

    def _script(self, record: RunRecord) -> str | None:
        return self.backend.submission_script(record, RunPaths(self.home.runs / "<month>" / _UNKNOWN_ID))

    def _ask_backend(self, record: RunRecord) -> tuple[tuple[str, ...], str | None, AirError | None]:
        compute = Compute(record.nodes, record.accelerators_per_node, record.accelerator_type, record.simulate)
        found: str | None = None
        try:
            found = self.backend.check_environment(record)
            return self.backend.check(compute), found, None
        except (CapacityError, ConfigError, BackendError) as refusal:
            return (refusal.message,), found, refusal

    def _record(
        self,
        loaded: Loaded,
        code: SnapshotPlan | SnapshotRecord | None,
        planned: EnvironmentPlan,
        *,
        simulate: bool,
        warnings: tuple[str, ...],
    ) -> RunRecord:
        workload, profile = loaded.workload, self.profile
        compute = workload.compute
        return RunRecord(
            id=_UNKNOWN_ID,
            experiment_name=workload.experiment_name,
            user=user_name(self.env),
            submitted_at=time.time(),
            workload_file=str(Path(loaded.file).absolute()),
            backend=profile.backend,
            backend_options=dict(profile.options),
            profile=profile.name,
            nodes=compute.nodes,
            accelerators=compute.num_accelerators,
            accelerators_per_node=compute.accelerators_per_node,
            accelerator_type=compute.accelerator_type,
            simulate=simulate,
            limits=Limits(
                max_retries=workload.max_retries,
                timeout_s=workload.timeout_minutes * 60.0 if workload.timeout_minutes is not None else None,
                stop_grace_s=profile.stop_grace_s,
                straggler_grace_s=profile.straggler_grace_s,
            ),
            environment=EnvironmentRecord(planned.base, planned.dependencies, planned.python_version, planned.key),
            snapshot=_snapshot_record(code),
            tracking_uri=profile.tracking_uri or self.env.get("MLFLOW_TRACKING_URI") or None,
            mlflow_run_name=workload.mlflow_run_name,
            mlflow_artifact_location=workload.mlflow_artifact_location,
            network=(workload.network or profile.network) if compute.nodes > 1 and not simulate else None,
            ray=_ray_record(workload.ray),
            env_variables=dict(workload.env_variables),
            secrets={name: str(ref) for name, ref in workload.secrets.items()},
            has_parameters=workload.parameters is not None,
            priority=workload.queue_priority,
            idempotency_token=workload.idempotency_token,
            hosted_only=dict(loaded.hosted_only),
            warnings=warnings,
        )


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """What $HYPERPARAMETERS_PATH names: the parameters as YAML, in their order."""
    import yaml

    return yaml.safe_dump(dict(parameters), sort_keys=False, allow_unicode=True)


def _plan_code(source: CodeSource | None, cache: Path | None, home: Home) -> SnapshotPlan | None:
    if source is None:
        return None
    from airlane import snapshot
    from airlane.snapshot.model import CodeRequest

    pin = source.git
    request = CodeRequest(
        root=source.root_path,
        include_paths=tuple(source.include_paths or ()),
        branch=pin.branch if pin is not None else None,
        commit=pin.commit if pin is not None else None,
        remote=pin.remote if pin is not None else None,
        leave_out=home.everything,
    )
    return snapshot.plan(request, cache_dir=cache)


def _ray_record(spec: RaySpec | None) -> RayRecord | None:
    if spec is None:
        return None
    return RayRecord(
        num_cpus=spec.num_cpus,
        object_store_bytes=spec.object_store_gb * 10**9 if spec.object_store_gb is not None else None,
        ready_timeout_s=spec.ready_timeout_minutes * 60.0,
        public=spec.dashboard == PUBLIC,
    )


def _snapshot_record(code: SnapshotPlan | SnapshotRecord | None) -> SnapshotRecord | None:
    if code is None or isinstance(code, SnapshotRecord):
        return code
    return SnapshotRecord(code.digest, code.root_name, code.files, code.size_bytes, code.git)


def _shown_variables(
    record: RunRecord, planned: EnvironmentPlan, home: Home, own: NodeHome | None
) -> tuple[Mapping[str, str], ...]:
    """The variables as a dry run shows them, PATH left out: it is the environment's bin folder and the caller's.

    `own` is what a node has that does not share the home.
    """
    paths = RunPaths(own.root if own is not None else home.runs / "<month>" / _UNKNOWN_ID)
    inside = built(planned).variables() if record.image is None and own is None else OF_AN_IMAGE
    root = record.snapshot.root_name if record.snapshot is not None else SCRATCH
    share = record.accelerators_per_node
    gpus = record.accelerator_type.startswith("GPU_") and not record.simulate
    shown = []
    for node in range(record.nodes):
        devices = tuple(f"<gpu {index}>" for index in range(node * share, (node + 1) * share)) if gpus else ()
        variables = run_variables(
            record,
            paths,
            0,
            NodePlace(node, "", "", devices, own),
            code=str(paths.code(attempt=0, node=node) / root),
            master=("<first node>", 0),
            tracked=None,
            environment_variables=inside,
        )
        del variables["PATH"]
        shown.append(variables | {"MASTER_PORT": "<free port>"})
    return tuple(shown)
