"""Asking a dashboard: what is sent, what comes back, and what is said when nothing does."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from airlane.cluster.rest import Dashboard, RayAnswerError, RayDeniedError, RayUnreachableError
from airlane.errors import ConfigError

from .conftest import Answer, StandIn

TOKEN = "s3cr3t-t0k3n"  # noqa: S105


def test_the_token_goes_into_the_header_and_nowhere_else(stand_in: StandIn) -> None:
    stand_in.on_json("GET /api/version", {"ray_version": "2.60.0"})
    assert Dashboard(stand_in.url, TOKEN).get_json("/api/version?x=1") == {"ray_version": "2.60.0"}
    (asked,) = stand_in.asked
    assert asked.headers["Authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in asked.path


def test_without_a_token_none_is_sent(stand_in: StandIn) -> None:
    stand_in.on("GET /", Answer(body=b"page"))
    assert Dashboard(stand_in.url).get("/") == b"page"
    assert "Authorization" not in stand_in.asked[0].headers


def test_proxies_of_the_environment_are_not_used(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    stand_in.on("GET /", Answer(body=b"page"))
    assert Dashboard(stand_in.url).get("/") == b"page"


def test_a_dashboard_behind_a_path_is_asked_below_it(stand_in: StandIn) -> None:
    stand_in.on("GET /ray/one/api", Answer(body=b"yes"))
    dashboard = Dashboard(f"{stand_in.url}/ray/one/")
    assert dashboard.get("/api") == b"yes"
    assert dashboard.url == f"{stand_in.url}/ray/one"


def test_questions_that_follow_each_other_share_a_connection(stand_in: StandIn) -> None:
    stand_in.on("GET /", Answer(body=b"page"))
    dashboard = Dashboard(stand_in.url)
    for _ in range(3):
        dashboard.get("/")
    assert stand_in.connections == 1
    dashboard.close()
    dashboard.get("/")
    assert stand_in.connections == 2
    dashboard.close()


def test_a_question_on_a_connection_that_was_closed_meanwhile_is_asked_anew(stand_in: StandIn) -> None:
    stand_in.on("GET /", Answer(body=b"first"), Answer(drop=True), Answer(body=b"second"))
    dashboard = Dashboard(stand_in.url)
    assert dashboard.get("/") == b"first"
    assert dashboard.get("/") == b"second"
    dashboard.close()


def test_what_changes_something_is_sent_once(stand_in: StandIn) -> None:
    stand_in.on_json("GET /", {})
    stand_in.on("POST /api/jobs/", Answer(drop=True))
    dashboard = Dashboard(stand_in.url)
    dashboard.get("/")
    with pytest.raises(RayUnreachableError, match="dropped the connection") as caught:
        dashboard.post_json("/api/jobs/", {"a": 1})
    assert not caught.value.refused
    assert [asked.body for asked in stand_in.asked if asked.method == "POST"] == [b'{"a": 1}']
    dashboard.close()


@pytest.mark.parametrize("size_bytes", [None, 1 << 20])
def test_a_file_arrives_as_it_is(stand_in: StandIn, size_bytes: int | None) -> None:
    content = bytes(range(256)) * 4096
    stand_in.on_json("PUT /file", {})
    Dashboard(stand_in.url).put("/file", io.BytesIO(content), size_bytes)
    (asked,) = stand_in.asked
    assert asked.body == content
    assert asked.headers["Content-Type"] == "application/octet-stream"
    assert asked.headers.get("Content-Length") == (str(size_bytes) if size_bytes else None)


def test_a_body_that_is_refused_before_it_was_read_is_refused_with_the_reason(stand_in: StandIn) -> None:
    stand_in.on("PUT /file", Answer(413, b"Maximum request body size exceeded", unread=True))
    with pytest.raises(RayAnswerError, match=r"413 .*Maximum request body size") as caught:
        Dashboard(stand_in.url).put("/file", b"x" * (64 << 20))
    assert caught.value.status == 413


def test_deleting_answers_in_json(stand_in: StandIn) -> None:
    stand_in.on_json("DELETE /api/jobs/x", {"deleted": True})
    assert Dashboard(stand_in.url).delete("/api/jobs/x") == {"deleted": True}


@pytest.mark.parametrize("status", [401, 403])
def test_a_cluster_that_wants_a_token_says_how_to_give_it(stand_in: StandIn, status: int) -> None:
    stand_in.on("GET /", Answer(status, b"Unauthorized: Missing authentication token"))
    with pytest.raises(RayDeniedError, match="wants a token") as caught:
        Dashboard(stand_in.url).get("/")
    assert stand_in.url in caught.value.message
    assert "RAY_AUTH_TOKEN_PATH=FILE" in str(caught.value.hint)


def test_a_wrong_token_is_told_without_telling_it(stand_in: StandIn) -> None:
    stand_in.on("GET /", Answer(403, b"Forbidden: Invalid authentication token"))
    with pytest.raises(RayDeniedError, match="does not accept this token") as caught:
        Dashboard(stand_in.url, TOKEN).get("/")
    assert TOKEN not in caught.value.message + str(caught.value.hint)


@pytest.mark.parametrize("token", ["two\nlines", "", "tab\there", "ünïcode"])
def test_a_token_that_no_header_can_hold_is_refused_without_telling_it(token: str) -> None:
    with pytest.raises(ConfigError, match="not one line of text") as caught:
        Dashboard("http://head:8265", token)
    assert not token or token not in caught.value.message


NESTED = b"""Traceback (most recent call last):
  File "job_head.py", line 419, in submit_job
RuntimeError: Request failed with status code 400: Traceback (most recent call last):
  File "job_agent.py", line 45, in submit_job
ValueError: Job with submission_id t1 already exists. Please use a different submission_id.
.
"""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"Job nope does not exist", "Job nope does not exist"),
        (NESTED, "ValueError: Job with submission_id t1 already exists. Please use a different submission_id"),
        (b'{"result": false, "msg": "Failed: no such node", "data": {}}', "Failed: no such node"),
        (b"<html><body>502 Bad Gateway</body></html>", ""),
        (b"", ""),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 2000, "x" * 500 + " ..."),
    ],
)
def test_an_error_comes_with_the_dashboards_own_reason(stand_in: StandIn, body: bytes, words: str) -> None:
    stand_in.on("GET /api", Answer(500, body))
    with pytest.raises(RayAnswerError) as caught:
        Dashboard(stand_in.url).get("/api?secret=1")
    assert (caught.value.status, caught.value.words) == (500, words)
    assert caught.value.message == f"{stand_in.url}: /api answers 500 Internal Server Error" + (words and f": {words}")


def test_an_answer_that_is_no_json_is_no_dashboards(stand_in: StandIn) -> None:
    stand_in.on("GET /", Answer(body=b"<html>"))
    with pytest.raises(RayAnswerError, match="does not answer in JSON") as caught:
        Dashboard(stand_in.url).get_json("/")
    assert "8265" in str(caught.value.hint)


def test_a_port_that_speaks_something_else_is_told_apart(stand_in: StandIn) -> None:
    stand_in.on("GET /", Answer(raw=b"\x00\x00\x12\x04\x00 what the GCS says\n"))
    with pytest.raises(RayUnreachableError, match="does not speak HTTP") as caught:
        Dashboard(stand_in.url).get("/")
    assert "8265" in str(caught.value.hint)


def test_tls_where_there_is_none_is_told_apart(stand_in: StandIn) -> None:
    with pytest.raises(RayUnreachableError, match="does not speak TLS") as caught:
        Dashboard(stand_in.url.replace("http:", "https:")).get("/")
    assert caught.value.hint == "try http://"


@contextmanager
def bound() -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock


def test_a_port_where_nobody_listens_refuses() -> None:
    with bound() as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        with pytest.raises(RayUnreachableError, match=f"{url} refuses the connection") as caught:
            Dashboard(url).get("/")
    assert caught.value.refused
    assert caught.value.retryable


def test_a_head_that_says_nothing_is_not_waited_for_longer_than_was_said() -> None:
    with bound() as sock:
        sock.listen()
        with pytest.raises(RayUnreachableError, match=r"does not answer within 0\.05 s") as caught:
            Dashboard(f"http://127.0.0.1:{sock.getsockname()[1]}", timeout_s=0.05).get("/")
    assert not caught.value.refused


def test_a_host_that_nobody_knows_is_named() -> None:
    with pytest.raises(RayUnreachableError, match=r"http://no-such-host\.invalid:8265: no such host"):
        Dashboard("http://no-such-host.invalid:8265").get("/")


def test_what_is_reached_by_a_tunnel_is_called_what_the_user_knows() -> None:
    with bound() as sock, pytest.raises(RayUnreachableError, match=r"^the dashboard of 7k2m refuses"):
        Dashboard(f"http://127.0.0.1:{sock.getsockname()[1]}", called="the dashboard of 7k2m").get("/")


@pytest.mark.parametrize(
    "url", ["head:8265", "ray://head:10001", "http://", "http://head:99999", "http://[::1:8265", ""]
)
def test_an_address_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="not the address of a Ray dashboard") as caught:
        Dashboard(url)
    assert caught.value.hint == "it looks like http://HOST:8265"


def test_a_password_in_an_address_is_refused_without_telling_it() -> None:
    with pytest.raises(ConfigError, match="address of head holds") as caught:
        Dashboard("http://me:hunter2@head:8265")
    assert "hunter2" not in caught.value.message


def test_a_stream_is_given_in_order_to_its_end(stand_in: StandIn) -> None:
    pieces = tuple(f"line {n}\n".encode() * n for n in range(1, 50))
    stand_in.on("GET /log", Answer(pieces=pieces))
    assert b"".join(Dashboard(stand_in.url).stream("/log?lines=-1", silence_s=5)) == b"".join(pieces)


def test_a_stream_that_breaks_off_is_no_end(stand_in: StandIn) -> None:
    stand_in.on("GET /log", Answer(pieces=(b"one\n", b"two\n"), whole=False))
    stream = Dashboard(stand_in.url).stream("/log", silence_s=5)
    got: list[bytes] = []
    with pytest.raises(RayUnreachableError, match="dropped the connection"):
        got.extend(stream)
    assert b"".join(got) == b"one\ntwo\n"


def test_a_stream_that_is_refused_says_why_at_once(stand_in: StandIn) -> None:
    stand_in.on("GET /log", Answer(500, b"A file is not found at: /x"))
    with pytest.raises(RayAnswerError, match="A file is not found"):
        Dashboard(stand_in.url).stream("/log", silence_s=5)


def test_a_stream_in_silence_is_given_up_after_what_was_said(stand_in: StandIn) -> None:
    over = threading.Event()
    stand_in.on("GET /log", Answer(pieces=(b"one\n",), then=lambda: over.wait(5)))
    stream = Dashboard(stand_in.url).stream("/log", silence_s=0.05)
    assert next(stream) == b"one\n"
    with pytest.raises(RayUnreachableError, match=r"does not answer within 0\.05 s"):
        next(stream)
    over.set()


def test_a_stream_may_be_closed_while_another_thread_waits_for_it(stand_in: StandIn) -> None:
    over, first = threading.Event(), threading.Event()
    stand_in.on("GET /log", Answer(pieces=(b"one\n",), then=lambda: over.wait(5)))
    stream = Dashboard(stand_in.url).stream("/log", silence_s=60)
    got: list[bytes] = []

    def read() -> None:
        for piece in stream:
            got.append(piece)
            first.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert first.wait(5)
    stream.close()
    stream.close()
    reader.join(5)
    assert not reader.is_alive()
    assert got == [b"one\n"]
    assert list(stream) == []
    over.set()


@contextmanager
def trickling(beginning: bytes) -> Iterator[str]:
    """A head that sends the beginning of an answer at once, and then byte by byte for as long as anybody listens."""
    with bound() as listening:
        listening.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                taken, _ = listening.accept()
                with taken:
                    taken.recv(65536)
                    taken.sendall(beginning)
                    while True:
                        taken.sendall(b"x")
                        threading.Event().wait(0.01)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    thread.join()


@pytest.mark.parametrize(
    "beginning", [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Long: "]
)
def test_an_answer_that_trickles_is_bounded_as_a_whole(beginning: bytes) -> None:
    with trickling(beginning) as url, pytest.raises(RayUnreachableError, match=r"does not answer within 0\.2 s"):
        Dashboard(url).get("/", within_s=0.2)


def test_a_connection_is_kept_where_the_whole_answer_was_bounded(stand_in: StandIn) -> None:
    stand_in.on("GET /", Answer(body=b"page" * 100_000))
    dashboard = Dashboard(stand_in.url)
    assert [len(dashboard.get("/", within_s=within_s)) for within_s in (5.0, None, 5.0)] == [400_000] * 3
    assert stand_in.connections == 1
    dashboard.close()
