"""One group of workers on the Ray cluster, from start to end: what the driver asks for, and what each worker does."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from recipes.engine.cluster import Share
from recipes.engine.failures import failure_of
from recipes.engine.wire import FLUSH_S, Silent, WireLine, answer


@dataclass(frozen=True)
class Work:
    """What every worker gets: `train` and its arguments, `data` as a reference, and the working directory."""

    train: Callable[..., Any]
    settings: Any
    data: Any
    board: Any
    folder: str


class Fit:
    """A group of workers under way, in a thread of its own: the driver's main one hears signals."""

    def __init__(self, work: Work, taken: Share, storage: str) -> None:
        self.ended = threading.Event()
        self.error: Exception | None = None
        arguments = (work, taken, storage)
        threading.Thread(target=self._fit, args=arguments, name="fit", daemon=True).start()

    def _fit(self, work: Work, taken: Share, storage: str) -> None:
        try:
            trainer(work, taken, storage).fit()
        except Exception as error:  # noqa: BLE001 - the driver judges it
            self.error = error
        finally:
            self.ended.set()


def trainer(work: Work, taken: Share, storage: str) -> Any:
    """Ray's trainer. It fails at the first failure: what comes then depends on the cause, which Ray does not know."""
    from ray.train import FailureConfig, LoggingConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    class Trainer(TorchTrainer):  # type: ignore[misc]
        """Without two actors that workers would share the cores with.

        One asks the dashboard each second, or that of another cluster on the same machine; the other hands out Ray
        data sets, of which there are none.
        """

        def _create_default_callbacks(self) -> list[Any]:
            found = super()._create_default_callbacks()
            unwanted = {"PlacementGroupCleanerCallback", "DatasetsCallback"}
            return [one for one in found if type(one).__name__ not in unwanted]

    return Trainer(
        train_on_worker,
        train_loop_config={"work": work, "cpus": taken.cpus},
        scaling_config=ScalingConfig(
            num_workers=taken.workers if taken.least == taken.workers else (taken.least, taken.workers),
            use_gpu=taken.gpu,
            resources_per_worker={"CPU": taken.cpus, **({"GPU": 1} if taken.gpu else {})},
        ),
        run_config=RunConfig(
            storage_path=storage,
            name="training",
            failure_config=FailureConfig(max_failures=0),
            logging_config=LoggingConfig(log_level="CRITICAL"),
        ),
    )


def train_on_worker(config: dict[str, Any]) -> None:
    """What each worker runs; how it fails is told to the driver before Ray hears of it."""
    import ray
    import ray.train
    import torch

    logging.getLogger("ray.train").setLevel(logging.CRITICAL)  # the driver tells how a worker ended
    work: Work = config["work"]
    rank = ray.train.get_context().get_world_rank()
    torch.set_num_threads(config["cpus"])
    with suppress(OSError):  # on a node where there is no such folder
        os.chdir(work.folder)
    line = WireLine(work.board) if rank == 0 else Silent()
    try:
        work.train(work.settings, *ray.get(work.data), line)
    except Exception as error:  # noqa: BLE001 - whatever it is, the driver has to hear of it
        failure = failure_of(error, rank, ray.util.get_node_ip_address())
        answer(work.board.fail.remote(failure), FLUSH_S)
        raise RuntimeError(failure.text) from None  # not every error can be carried to another process
    finally:
        line.close()
