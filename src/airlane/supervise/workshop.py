"""The real workshop: builds the environment beside the queue, lays the code out on each node, writes the orders."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from airlane import environment, snapshot
from airlane.backends.base import NodePlace
from airlane.environment import BuiltEnvironment, EnvironmentPlan
from airlane.errors import EnvironmentBuildError, SnapshotError
from airlane.launch.container_argv import box_folder
from airlane.launch.order import ContainerOrder, Order
from airlane.launch.rendezvous import node_variables, ray_tmpdir
from airlane.store.disk import make_private_folder
from airlane.store.paths import SCRATCH, Home, RunPaths
from airlane.store.records import RunRecord
from airlane.supervise.layout import Layout, lay_out
from airlane.tracking.tracker import TrackedRun

_CANCEL_PATIENCE_S = 10.0
# An image has its own PATH, which what is written here does not touch.
OF_AN_IMAGE = {"PATH": ""}


class RunWorkshop:
    """The environment and the code of one run; without a plan, the nodes have their environment already."""

    def __init__(self, record: RunRecord, paths: RunPaths, home: Home, plan: EnvironmentPlan | None) -> None:
        self._record = record
        self._paths = paths
        self._home = home
        self._plan = plan
        self._image = record.image
        self._built: BuiltEnvironment | None = None
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None
        self._given_up = threading.Event()
        self._held = contextlib.ExitStack()
        self.progress: str | None = None

    def begin(self) -> None:
        if self._plan is None:
            return
        self._held.enter_context(environment.hold(self._home, self._plan.key))
        if self._plan.cached and (self._image is None or self._image.settled):
            self._build(self._plan)
            return
        self.progress = "building the environment" if self._image is None else "reading the image"
        self._thread = threading.Thread(target=self._build, args=(self._plan,), name="environment", daemon=True)
        self._thread.start()

    def ready(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return self._built is not None or self._plan is None

    def _build(self, plan: EnvironmentPlan) -> None:
        try:
            make_private_folder(self._paths.attempt(0))
            if self._image is not None and not self._image.settled:
                from airlane.environment.container import with_digests

                self._image = with_digests(self._image, self._home, progress=self._say_of_image)
            self._built = environment.build(
                plan,
                log=self._paths.setup_log(0),
                progress=self._say,
                cancelled=self._given_up.is_set,
            )
        except Exception as error:  # noqa: BLE001 (told by ready(), in the supervisor's own thread)
            self._failure = error

    def _say(self, words: str) -> None:
        self.progress = f"environment: {words}"

    def _say_of_image(self, words: str) -> None:
        if self._given_up.is_set():
            raise EnvironmentBuildError("The image was not read to its end: the run was stopped.")
        self.progress = words

    def orders(
        self, attempt: int, places: Sequence[NodePlace], port: int, tracked: TrackedRun | None
    ) -> tuple[Order, ...]:
        make_private_folder(self._paths.nodes(attempt))
        layouts = {place.node: lay_out(self._paths, attempt, place) for place in places}
        scripts = self._scripts(attempt, places, layouts)
        master = (places[0].address, port)
        return tuple(
            self._order(
                attempt,
                place,
                layout=layouts[place.node],
                script=scripts[place.node],
                master=master,
                tracked=tracked,
            )
            for place in places
        )

    def _scripts(self, attempt: int, places: Sequence[NodePlace], layouts: Mapping[int, Layout]) -> Mapping[int, Path]:
        """What bash runs on each node."""
        record = self._record
        if record.ray is None:
            return {node: layout.seen.command for node, layout in layouts.items()}
        from airlane.supervise.ray_cluster import lay_out_ray, new_token

        token = new_token()
        laid = {
            layout: lay_out_ray(record, record.ray, attempt, places, layout=layout, token=token)
            for layout in dict.fromkeys(layouts.values())
        }
        return {node: laid[layout] for node, layout in layouts.items()}

    def _order(
        self,
        attempt: int,
        place: NodePlace,
        *,
        layout: Layout,
        script: Path,
        master: tuple[str, int],
        tracked: TrackedRun | None,
    ) -> Order:
        record, paths, node = self._record, layout.seen, place.node
        code = self._code(attempt, place, layout)
        variables = run_variables(
            record,
            paths,
            attempt,
            place,
            code=str(code),
            master=master,
            tracked=tracked,
            environment_variables=self._environment_variables(place, layout),
        )
        return Order(
            run_id=record.id,
            attempt=attempt,
            node_rank=node,
            command_file=str(script),
            working_folder=str(code),
            log_file=str(paths.log(attempt=attempt, node=node)),
            record_file=str(paths.node_record(attempt=attempt, node=node)),
            env=variables,
            network=record.network,
            secrets_files=self._secrets_files(tracked),
            stop_grace_s=record.limits.stop_grace_s,
            metrics_file=str(paths.node_metrics(attempt=attempt, node=node)),
            gpus=place.devices,
            scratch_folders=self._scratch_folders(attempt, node),
            container=self._container(),
        )

    def _scratch_folders(self, attempt: int, node: int) -> tuple[str, ...]:
        ray = ray_tmpdir(self._record.id, attempt=attempt, node=node)
        if self._image is None:
            return (ray,)
        return ray, box_folder(self._record.id, attempt=attempt, node=node)

    def _container(self) -> ContainerOrder | None:
        if self._image is None:
            return None
        from airlane.environment.container import container_order

        return container_order(self._image, self._paths)

    def _secrets_files(self, tracked: TrackedRun | None) -> tuple[str, ...]:
        own = str(self._paths.secrets) if self._record.secret_refs else None
        tracking = tracked.login_file if tracked is not None else None
        return tuple(file for file in (own, tracking) if file is not None)

    def _environment_variables(self, place: NodePlace, layout: Layout) -> dict[str, str]:
        inside = self._inside(place)
        if self._image is None:
            inside["PATH"] += f"{os.pathsep}{layout.programs}"
        return inside

    def _inside(self, place: NodePlace) -> dict[str, str]:
        if place.home is not None:
            inside = {"PATH": place.home.path}
            return inside | ({"VIRTUAL_ENV": place.home.virtual_env} if place.home.virtual_env is not None else {})
        if self._built is None:
            raise AssertionError("orders are written once the environment is ready")
        if self._image is not None:
            return dict(OF_AN_IMAGE)
        return self._built.variables(os.environ)

    def _code(self, attempt: int, place: NodePlace, layout: Layout) -> Path:
        """Where the node's command starts; a node with a disk of its own unpacks the code itself."""
        if place.home is None:
            return self._lay_out_code(attempt, place.node)
        name = self._record.snapshot.root_name if self._record.snapshot is not None else SCRATCH
        return layout.seen.code(attempt=attempt, node=place.node) / name

    def _lay_out_code(self, attempt: int, node: int) -> Path:
        folder = self._paths.code(attempt=attempt, node=node)
        make_private_folder(folder)
        if self._record.snapshot is None:
            scratch = folder / SCRATCH
            make_private_folder(scratch)
            return scratch
        archive = self._home.snapshot_archive(self._record.snapshot.digest)
        if not archive.exists():
            raise SnapshotError(
                f"the code of this run is gone: {archive}", hint=f"air run -f {self._record.workload_file}"
            )
        return snapshot.unpack(archive, folder)

    def clean(self, attempt: int) -> None:
        import shutil

        for name in ("code", "sent"):
            shutil.rmtree(self._paths.attempt(attempt) / name, ignore_errors=True)
        if self._record.ray is not None:
            from airlane.supervise.ray_cluster import forget_token

            forget_token(self._paths, attempt)

    def close(self, *, run_ends: bool) -> None:
        self._given_up.set()
        if self._thread is not None:
            self._thread.join(_CANCEL_PATIENCE_S)
        self._held.close()
        if run_ends:
            with contextlib.suppress(OSError):  # a disk that is away now: readers remove what is left
                self._paths.secrets.unlink(missing_ok=True)


def run_variables(
    record: RunRecord,
    paths: RunPaths,
    attempt: int,
    place: NodePlace,
    *,
    code: str,
    master: tuple[str, int],
    tracked: TrackedRun | None,
    environment_variables: Mapping[str, str],
) -> dict[str, str]:
    """The variables of one node of a run; the environment's PATH is whole already."""
    address, port = master
    rest = {name: value for name, value in environment_variables.items() if name not in ("PATH", "VIRTUAL_ENV")}
    own = {**rest, **record.env_variables}
    if tracked is not None and record.tracking_uri is None:
        own |= past_proxies(tracked.uri, {**os.environ, **own})
    return node_variables(
        run_id=record.id,
        attempt=attempt,
        node=place.node,
        nodes=record.nodes,
        accelerators_per_node=record.accelerators_per_node,
        master_addr=address,
        master_port=port,
        devices=place.devices,
        code_source_path=code,
        checkpoint_dir=str(place.home.checkpoints if place.home is not None else paths.checkpoints),
        path=environment_variables["PATH"],
        virtual_env=environment_variables.get("VIRTUAL_ENV"),
        hyperparameters_path=str(paths.parameters) if record.has_parameters else None,
        tracking_uri=tracked.uri if tracked is not None else None,
        mlflow_experiment_name=record.experiment_name if tracked is not None else None,
        mlflow_run_id=tracked.run_id if tracked is not None else None,
        env_variables=own,
    )


def past_proxies(uri: str, env: Mapping[str, str]) -> dict[str, str]:
    """What keeps MLflow's client from asking a proxy for Airlane's own server; nothing where there is no proxy."""
    if not any(env.get(name) for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")):
        return {}
    from urllib.parse import urlsplit

    hosts = (env.get("no_proxy") or env.get("NO_PROXY"), urlsplit(uri).hostname)
    direct = ",".join(host for host in hosts if host)
    return {"no_proxy": direct, "NO_PROXY": direct}
