"""What MLflow gets of a training, from a real server, and what a dead one does to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import mlflow
import pytest
from recipes.engine import mlflow_log
from recipes.engine.mlflow_log import MOST_WAITING, Recorder, recorder_of_run

STEP = {
    "step": 7, "loss": 2.5, "learning_rate": 1e-3, "grad_norm": 0.5, "tokens_per_s": 1000.0,
    "padded_tokens_per_s": 1100.0, "mfu": None, "peak_memory_bytes": 10**9, "data_wait_share": 0.01,
    "seconds_per_step": 0.1, "epoch": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an MLflow server of the tests' own."""
    folder = tmp_path_factory.mktemp("mlflow")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    stores = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "files")]
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1", *stores]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=folder)
        wait_for(address, folder / "log")
        yield address
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(address: str, log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):  # noqa: S310 - http
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(log.read_text())


@pytest.fixture
def run_id(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    mlflow.set_tracking_uri(server)
    return str(mlflow.MlflowClient().create_run("0").info.run_id)


def test_settings_metrics_and_files_are_in_the_run(run_id: str, tmp_path: Path) -> None:
    said: list[str] = []
    recorder = Recorder(run_id, said.append)
    recorder.params({f"section.setting{number}": str(number) for number in range(150)})
    recorder.hear("start", {"step": 0}, 1000.0)
    recorder.hear("step", STEP, 1000.5)
    recorder.hear("evaluation", {"step": 7, "loss": 2.0, "perplexity": 7.4, "best": True}, 1001.0)
    recorder.hear("saved", {"step": 7, "seconds": 0.2, "bytes": 12, "held_s": 0.01}, 1002.0)
    (tmp_path / "summary.md").write_text("# It went well")
    recorder.finish([tmp_path / "summary.md"], 60)

    assert said == []
    client = mlflow.MlflowClient()
    data = client.get_run(run_id).data
    assert len(data.params) == 150
    assert set(data.metrics) == {
        "train/loss", "train/learning_rate", "train/grad_norm", "train/epoch", "speed/tokens_per_s",
        "speed/padded_tokens_per_s", "speed/seconds_per_step", "speed/data_wait_share", "memory/peak_bytes",
        "eval/loss", "eval/perplexity", "checkpoint/seconds", "checkpoint/bytes", "checkpoint/held_seconds",
    }  # fmt: skip
    (loss,) = client.get_metric_history(run_id, "train/loss")
    assert (loss.value, loss.step, loss.timestamp) == (2.5, 7, 1000500)
    assert [file.path for file in client.list_artifacts(run_id)] == ["summary.md"]


def test_more_metrics_than_a_request_takes_all_arrive(run_id: str) -> None:
    said: list[str] = []
    recorder = Recorder(run_id, said.append)
    for step in range(1, 301):
        recorder.hear("step", {**STEP, "step": step, "loss": float(step)}, 1000.0 + step)
    recorder.finish([], 60)
    assert said == []
    history = mlflow.MlflowClient().get_metric_history(run_id, "train/loss")
    assert [point.value for point in history] == [float(step) for step in range(1, 301)]


def test_a_run_that_is_not_there_is_told_once(run_id: str) -> None:  # noqa: ARG001 - the server is needed
    said: list[str] = []
    recorder = Recorder("0" * 32, said.append)
    recorder.hear("step", STEP, 1000.0)
    recorder.finish([], 60)
    (line,) = said
    assert line.startswith("MLflow records nothing more of this training: ")
    assert "not found" in line


def test_a_server_that_does_not_answer_costs_the_training_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", nobody)
    monkeypatch.setattr(mlflow_log, "SEND_EVERY_S", 0.01)
    mlflow.set_tracking_uri(nobody)
    heard = threading.Event()
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        heard.set()

    recorder = Recorder("0" * 32, say)
    began = time.monotonic()
    for step in range(MOST_WAITING // 10):
        recorder.hear("step", {**STEP, "step": step}, 1000.0)
    assert time.monotonic() - began < 5
    assert heard.wait(60)
    recorder.finish([], 0.1)
    assert said[0].startswith("MLflow does not answer; metrics wait until it does, training goes on: ")
    assert said[1] == "MLflow did not take everything: its run lacks the last metrics, or the summary"


def test_without_a_run_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    assert recorder_of_run(print) is None
