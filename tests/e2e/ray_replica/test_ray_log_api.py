"""What Ray's dashboard does with log files, as far as the way of a run's files relies on it."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlencode

import pytest

from airlane.backends.ray.inbox import Inbox
from airlane.backends.ray.outbox import Outbox
from airlane.backends.ray.replica import Frame, Sink
from airlane.cluster.rest import Dashboard
from airlane.errors import RayAnswerError, RayDeniedError
from ray_lab import RayLab

pytestmark = pytest.mark.slow

HEAD, WORKER = 0, 1
MOST_QUESTIONS_AT_A_TIME = 100  # of Ray's: RAY_STATE_SERVER_MAX_HTTP_REQUEST


def logs_of(lab: RayLab, node: int) -> Path:
    return lab.sessions / str(node) / "session_latest" / "logs"


def ask(lab: RayLab, node: int, filename: str, lines: int) -> bytes:
    query = urlencode({"node_id": lab.node_id(node), "filename": filename, "lines": lines})
    return Dashboard(lab.url, lab.token, timeout_s=60).get(f"/api/v0/logs/file?{query}")


@pytest.mark.parametrize("node", [HEAD, WORKER])
def test_a_file_in_a_folder_of_the_logs_is_served_byte_by_byte(ray_lab: RayLab, node: int) -> None:
    content = bytes(range(256)) * 4000 + b"\n" + os.urandom(100_000) + b"\nno newline at the end \x1b[31m\xff"
    folder = logs_of(ray_lab, node) / "air-test"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "bytes-0.out").write_bytes(content)
    assert ask(ray_lab, node, "air-test/bytes-0.out", -1) == content
    assert ask(ray_lab, node, "air-test/bytes-0.out", 1) == content.rpartition(b"\n")[2]
    assert ask(ray_lab, node, "air-test/bytes-0.out", 3) == b"\n".join(content.rsplit(b"\n", 3)[1:])


def answers(lab: RayLab, node_id: str) -> list[str]:
    """What Ray says of a file that is not there: a refusal in words, or nothing at all, which is no line."""
    query = urlencode({"node_id": node_id, "filename": "air-nowhere-0.out", "lines": 1})
    said = []
    for _ in range(10):
        try:
            said.append(Dashboard(lab.url, lab.token, timeout_s=60).get(f"/api/v0/logs/file?{query}").decode())
        except RayAnswerError as error:
            said.append(error.words)
    return said


def test_a_file_that_is_not_there_is_no_line_and_a_node_that_is_not_there_is_said_to_be_missing(
    ray_lab: RayLab,
) -> None:
    assert all(said == "" or said.startswith("A file is not found at") for said in answers(ray_lab, ray_lab.node_id(1)))
    assert all(said.startswith("Agent for node id") for said in answers(ray_lab, "0" * 56))


def test_an_inbox_needs_the_token(ray_lab: RayLab, tmp_path: Path) -> None:
    inbox = Inbox(Dashboard(ray_lab.url), ray_lab.node_id(HEAD), "air-x", Sink(tmp_path), tmp_path / "position.json")
    with pytest.raises(RayDeniedError):
        inbox.sync()


def test_looking_at_a_silent_outbox_often_leaves_nothing_open_on_the_cluster(ray_lab: RayLab, tmp_path: Path) -> None:
    """A stream that is left while its file is silent stays open, and a hundred of them stop the dashboard."""
    Outbox(logs_of(ray_lab, WORKER), "air-silent").put([Frame("status.json", None, b"{}")])
    node_id = ray_lab.node_id(WORKER)
    for number in range(MOST_QUESTIONS_AT_A_TIME + 10):
        folder = tmp_path / str(number)
        folder.mkdir()
        dashboard = Dashboard(ray_lab.url, ray_lab.token, timeout_s=30)
        Inbox(dashboard, node_id, "air-silent", Sink(folder), folder / "position.json").sync()
        dashboard.close()
        assert (folder / "status.json").read_bytes() == b"{}"
    assert ray_lab.state(WORKER) == "ALIVE"
