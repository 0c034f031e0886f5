"""The client: plans and submits runs, finds them again, and looks after what they leave."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from airlane.api.run import Run
from airlane.api.user import user_name
from airlane.backends.base import Backend, Liveness
from airlane.backends.registry import make_backend
from airlane.errors import AirError, ArgumentError, ConfigError, NotFoundError, StoreError
from airlane.spec.profiles import NO_TRACKING, Profile, load_profile, load_profiles
from airlane.store.disk import SystemDisk
from airlane.store.paths import Home, default_home
from airlane.store.records import RunRecord, SnapshotRecord
from airlane.store.runs import LAST, NewRun, RunContent, RunStore, RunView
from airlane.store.uploaded import upload_waits

if TYPE_CHECKING:  # each method imports what it needs: `air get` must not pay for `air run`
    from airlane.api.clusters import Clusters
    from airlane.api.planning import Planner, RunPlan
    from airlane.api.shelves import Environments, Secrets, TrackingServer
    from airlane.backends.base import Finding

Progress = Callable[[str, str], None]
LONGEST_TOKEN = 64


class Client:
    """Runs under one profile's home, on its backend."""

    def __init__(
        self, profile: str | None = None, home: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self._env = os.environ if env is None else env
        self.profile: Profile = load_profile(profile, self._env)
        self.home = Home(home or self.profile.home or default_home())
        self._store = RunStore(self.home)
        self._disk = SystemDisk()
        self._backends: dict[str, Backend] = {}

    @property
    def environments(self) -> Environments:
        from airlane.api.shelves import Environments

        return Environments(self.home)

    @property
    def secrets(self) -> Secrets:
        from airlane.api.shelves import Secrets

        return Secrets(self.home)

    @property
    def tracking(self) -> TrackingServer:
        from airlane.api.shelves import TrackingServer

        return TrackingServer(self.home, self.profile.tracking_uri or self._env.get("MLFLOW_TRACKING_URI"))

    @property
    def clusters(self) -> Clusters:
        from airlane.api.clusters import Clusters

        return Clusters(self, self._backend)

    def doctor(self) -> tuple[Finding, ...]:
        """Checks of what runs under this profile need."""
        from airlane.api.health import check_machine

        return check_machine(self.home, self.profile, self._backend(self.profile.backend), self.tracking)

    def plan(self, file: Path, overrides: Sequence[str] = (), *, simulate: bool = False, touch: bool = True) -> RunPlan:
        """Exactly what submitting the file would do. With `touch=False` not even a cache is written.

        Raises:
            SpecError: the file is wrong; SnapshotError, EnvironmentBuildError: so is what it names.
        """
        return self._planner().plan(file, overrides, simulate=simulate, touch=touch)

    def plan_text(self, text: str, *, file: str) -> RunPlan:
        """The plan of a workload that is in no file; `file` says where it came from."""
        return self._planner().plan_text(text, file=file)

    def submit(self, plan: RunPlan, *, idempotency_token: str | None = None, progress: Progress | None = None) -> Run:
        """Freeze the code and start the run; with a token that was used before, the run of then is returned.

        The supervisor is forked from this process, which should have no other thread.

        Raises:
            CapacityError: the run can never fit where the profile sends it.
            SecretError: a secret is missing.
        """
        token = _check_token(idempotency_token) or plan.workload.idempotency_token
        if token is None:
            return self._submit(plan, progress)
        plan = replace(plan, record=replace(plan.record, idempotency_token=token))
        with self._store.token(plan.record.user, token) as held:
            if held.run_id is not None:
                return self._run(self._store.view(self._store.find(held.run_id)))
            return self._submit(plan, progress, name_run=held.assign)

    def rerun(self, name: str, overrides: Sequence[str] = (), *, progress: Progress | None = None) -> Run:
        """Submit a run again, with its frozen code and environment, unless an override changes them."""
        plan = self._planner().replan(self.get(name).view(), overrides)
        return self._submit(plan, progress)

    def get(self, name: str) -> Run:
        """The run of an id, the beginning of one, or @last.

        Raises:
            NotFoundError: there is none, or more than one.
        """
        self._upload_kept()
        try:
            return self._run(self._store.view(self._store.find(name)))
        except NotFoundError as error:
            owner = self._profile_with(name)
            if owner is None:
                raise
            raise NotFoundError(error.message, hint=f"profile {owner} has it: add -p {owner}") from error

    def _profile_with(self, name: str) -> str | None:
        """Another profile in whose home there is a run of that name."""
        for other in load_profiles(self._env)[0].values():
            home = Home(other.home or default_home())
            if name != LAST and home != self.home and home.runs.is_dir():
                with contextlib.suppress(NotFoundError):
                    RunStore(home).find(name)
                    return other.name
        return None

    def list(
        self,
        *,
        limit: int = 20,
        all_status: bool = False,
        all_users: bool = False,
        filters: Mapping[str, str] | None = None,
        on_damage: Callable[[StoreError], None] | None = None,
    ) -> tuple[RunView, ...]:
        """The newest runs: those that wait or run and those of the last day, or all with `all_status`.

        A run whose files are damaged is left out; `on_damage` is told which file it is.
        """
        from airlane.api.listing import Selection, list_runs, read_filters, recent
        from airlane.store.index import RunIndex

        self._upload_kept()
        matches = read_filters(filters or {})
        user = None if all_users or "user" in (filters or {}) else user_name(self._env)
        selection = Selection(limit, user, None if all_status else recent(), matches)

        def settle(views: Sequence[RunView]) -> Sequence[RunView]:
            return self._settle_all(views, on_damage or (lambda _error: None))

        return list_runs(self._store, RunIndex(self.home.index), settle, selection, on_damage=on_damage)

    def cancel(self, names: Sequence[str]) -> tuple[str, ...]:
        """Ask the runs to end; returns the ids of those that had not ended yet. Harmless when repeated.

        Raises:
            NotFoundError: there is no such run; then none was asked.
        """
        views = {run.id: run.view() for run in map(self.get, names)}.values()
        canceled = []
        for view in views:
            if not view.state.terminal:
                self._ask_to_cancel(view)
                canceled.append(view.record.id)
        return tuple(canceled)

    def _ask_to_cancel(self, view: RunView) -> None:
        request = {"by": user_name(self._env), "at": time.time()}
        try:
            self._disk.create(view.paths.cancel, json.dumps(request).encode())
        except OSError as error:
            pid = view.status.supervisor_pid if view.status is not None else None
            raise StoreError(
                f"cannot write {view.paths.cancel}: {error.strerror}",
                hint=f"free some space, or ask its supervisor: kill {pid}" if pid is not None else "free some space",
            ) from error
        self._backend(view.record.backend).cancel(view.paths)

    def cancel_all(self) -> tuple[str, ...]:
        """Cancel every run of this user that has not ended."""
        views = self.list(limit=1 << 30)
        return self.cancel([view.record.id for view in views if not view.state.terminal])

    def _planner(self) -> Planner:
        from airlane.api.planning import Planner

        return Planner(self.profile, self.home, self._backend(self.profile.backend), self._env)

    def _backend(self, name: str) -> Backend:
        if name not in self._backends:
            self._backends[name] = self._make_backend(name)
        return self._backends[name]

    def _make_backend(self, name: str) -> Backend:
        profile = self.profile
        if name != profile.backend:
            return make_backend(name, self.home, {})
        try:
            return make_backend(name, self.home, profile.options)
        except ConfigError as error:
            where = f"{profile.file}: profiles.{profile.name}: " if profile.file is not None else ""
            raise ConfigError(f"{where}{error.message}", hint=error.hint) from error

    def _run(self, view: RunView, *, created: bool = False) -> Run:
        return Run(view, self._store, self._settle, created=created)

    def _submit(
        self, plan: RunPlan, progress: Progress | None, *, name_run: Callable[[str], None] | None = None
    ) -> Run:
        from airlane.api.planning import parameters_text
        from airlane.store.journal import Journal

        if plan.refusal is not None:
            raise plan.refusal
        content = RunContent(
            workload=plan.loaded.text,
            command=plan.command,
            parameters=parameters_text(plan.workload.parameters) if plan.workload.parameters is not None else None,
            diff=_diff(plan),
            secrets=self._resolve_secrets(plan.record.secret_refs),
        )
        self._pack(plan, progress)
        backend = self._backend(plan.record.backend)
        if backend.elsewhere:
            plan = plan if backend.has_environment else self._build(plan, progress)
            self._open_tracking(plan.record, backend, progress)
        with self._store.submission():
            new = self._store.create(replace(plan.record, submitted_at=time.time()), content)
            try:
                if name_run is not None:
                    name_run(new.record.id)  # before anything starts: with one token there is never a second run
                Journal(new.paths, self._disk).event("submitted", new.record.submitted_at, user=new.record.user)
                backend.submit(new, lambda: self._supervise(new, plan), ready=plan.environment.cached)
            except AirError:
                self._store.discard(new)
                raise
        self._upload_kept()
        return self._run(self._store.view(new.paths), created=True)

    def _build(self, plan: RunPlan, progress: Progress | None) -> RunPlan:
        """The plan with its environment built here: the nodes may have no network."""
        from airlane import environment

        planned = plan.environment
        if planned.cached:
            return plan

        def tell(words: str) -> None:
            if progress is not None:
                progress("environment", words)

        environment.build(planned, progress=tell)
        return replace(plan, environment=replace(planned, cached=True))

    def _open_tracking(self, record: RunRecord, backend: Backend, progress: Progress | None) -> None:
        """Start the home's MLflow server where the nodes reach it; without it, metrics are kept and uploaded later."""
        if record.tracking_uri is not None:
            return
        if progress is not None:
            progress("tracking", "starting the MLflow server")
        with contextlib.suppress(AirError):
            self.tracking.open_towards(backend.a_node())

    def _supervise(self, new: NewRun, plan: RunPlan) -> None:
        from airlane.supervise.body import supervise

        supervise(
            new.record,
            new.paths,
            home=self.home,
            backend=self._backend(new.record.backend),
            plan=lambda: plan.environment,
            params=dict(plan.workload.parameters or {}),
            env=self._env,
        )

    def _resolve_secrets(self, refs: Mapping[str, str]) -> bytes | None:
        if not refs:
            return None
        from airlane.store.secrets import resolve

        values = resolve(refs, home=self.home, profile_secrets=self.profile.secrets, env=self._env)
        return json.dumps(values).encode()

    def _pack(self, plan: RunPlan, progress: Progress | None) -> None:
        if plan.snapshot is None or isinstance(plan.snapshot, SnapshotRecord):
            return
        archive = self.home.snapshot_archive(plan.snapshot.digest)
        if archive.exists():
            return
        from airlane import snapshot

        def tell(done_bytes: int, all_bytes: int) -> None:
            if progress is not None and all_bytes:
                progress("code", f"packing {100 * done_bytes // all_bytes} % of {all_bytes / 1e6:.1f} MB")

        self._store.make_folder(archive.parent)
        snapshot.pack(plan.snapshot, archive, tell)

    def _settle(self, view: RunView) -> RunView:
        return self._settle_all([view])[0]

    def _settle_all(
        self, views: Sequence[RunView], on_damage: Callable[[StoreError], None] | None = None
    ) -> tuple[RunView, ...]:
        """The truth about each: those of dead supervisors are ended, what others wait for is said.

        With `on_damage`, runs whose files are damaged are left out.
        """
        open_views = [view for view in views if not view.state.terminal]
        settled = {view.paths.id: view for view in views}
        for name in dict.fromkeys(view.record.backend for view in open_views):
            there = [view for view in open_views if view.record.backend == name]
            self._settle_there(self._backend(name), there, settled, on_damage)
        return tuple(settled[view.paths.id] for view in views if view.paths.id in settled)

    def _settle_there(
        self,
        backend: Backend,
        views: Sequence[RunView],
        settled: dict[str, RunView],
        on_damage: Callable[[StoreError], None] | None,
    ) -> None:
        if backend.bring([view.paths for view in views]):
            views = [self._store.view(view.paths) for view in views]
            settled |= {view.paths.id: view for view in views}
            views = [view for view in views if not view.state.terminal]
        alive = backend.poll([view.paths for view in views])
        dead = [view for view in views if alive[view.paths.id] is Liveness.DEAD]
        queued = [view for view in views if alive[view.paths.id] is Liveness.WAITING]
        waiting = backend.queued([view.paths for view in queued]) if queued else {}
        for view in queued:
            if view.paths.id in waiting:
                detail = waiting[view.paths.id].detail
                settled[view.paths.id] = view.waits(detail, backend.where(view.paths))
        for view in dead:
            try:
                settled[view.paths.id] = self._settle_dead(view)
            except StoreError as error:
                if on_damage is None:
                    raise
                del settled[view.paths.id]
                on_damage(error)

    def _settle_dead(self, view: RunView) -> RunView:
        from airlane.supervise.body import log_evidence
        from airlane.supervise.settle import settle_dead

        attempts = view.attempts
        evidence = log_evidence(view.paths, attempts[-1].number if attempts else 0)
        settled = settle_dead(
            view, self._store, self._backend(view.record.backend), self._disk, now=time.time(), evidence=evidence
        )
        if settled.verdict is not None and settled.state.terminal:
            self._close_tracking(settled)
        return settled

    def _upload_kept(self) -> None:
        """What runs kept that did not reach the MLflow server goes there, beside what the user does."""
        if upload_waits(self.home):
            from airlane.supervise.uploading import upload_beside

            upload_beside(self.home)

    def _close_tracking(self, view: RunView) -> None:
        if view.attempts and view.record.tracking_uri != NO_TRACKING:
            from airlane.supervise.body import close_attempt

            close_attempt(self.home, view.record, view.paths, view.attempts[-1], self._env)


def _check_token(token: str | None) -> str | None:
    if token is None:
        return None
    token = token.strip()
    if not token or len(token) > LONGEST_TOKEN:
        raise ArgumentError(f"--idempotency-key: expected 1 to {LONGEST_TOKEN} characters, got {len(token)}")
    return token


def _diff(plan: RunPlan) -> bytes | None:
    if plan.snapshot is None:
        return None
    if isinstance(plan.snapshot, SnapshotRecord):
        diff = plan.rerun_of.paths.diff if plan.rerun_of is not None else None
        return diff.read_bytes() if diff is not None and diff.exists() else None
    return plan.snapshot.diff.encode("utf-8", "surrogateescape") if plan.snapshot.diff else None
