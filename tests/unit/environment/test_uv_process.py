"""What uv says, and what people and logs get of it."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from airlane.environment.uv_process import Outcome, Uv, find_uv, human_size, progress_message
from airlane.errors import EnvironmentBuildError


def a_uv(folder: Path, *secrets: str, log: io.BytesIO | None = None, cancelled: bool = False) -> Uv:
    return Uv(
        environ={"VIRTUAL_ENV": "/other", "PATH": "/bin"},
        folder=folder,
        log=[log] if log else [],
        secrets=secrets,
        progress=lambda _: None,
        cancelled=lambda: cancelled,
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Downloading torch (181.4MiB)", "downloading torch 190 MB"),
        ("Downloading sentencepiece (1.6MiB)", "downloading sentencepiece 1.7 MB"),
        ("   Building flash-attn==2.8.0", "building flash-attn==2.8.0 from source"),
        (" Downloaded torch", None),
        ("Installed 146 packages in 574ms", None),
    ],
)
def test_progress_is_told_in_words(line: str, message: str | None) -> None:
    assert progress_message(line, {}) == message


def test_the_number_of_packages_is_told_when_they_are_ready() -> None:
    told: dict[str, str] = {}
    assert progress_message("Resolved 146 packages in 776ms", told) is None
    assert progress_message("Prepared 67 packages in 2.07s", told) == "installing 146 packages"


@pytest.mark.parametrize(("size", "shown"), [(3.1e9, "3.1 GB"), (19e9, "19 GB"), (1e6, "1.0 MB"), (999, "1 kB")])
def test_sizes_are_told_in_powers_of_ten(size: float, shown: str) -> None:
    assert human_size(size) == shown


def test_secrets_and_credentials_are_masked(tmp_path: Path) -> None:
    uv = a_uv(tmp_path, "abc", "abcdef", "")
    assert (
        uv.mask("abcdef abc https://me:pw@host/x git+ssh://git@host") == "*** *** https://***@host/x git+ssh://git@host"
    )


def test_the_explanation_starts_where_uv_says_error() -> None:
    said = "Using Python 3.11\nwarning: x\nerror: No solution found\n  cause: Because\n"
    assert Outcome(succeeded=False, output=said).explanation() == "error: No solution found\n  cause: Because"
    assert Outcome(succeeded=False, output="  × No solution found\n  ╰─▶ Because").explanation().startswith("  ×")
    many = "\n".join(["error: start", *map(str, range(100))])
    assert Outcome(succeeded=False, output=many).explanation().splitlines() == [str(n) for n in range(60, 100)]


def test_what_uv_says_is_logged_with_the_command(tmp_path: Path) -> None:
    log = io.BytesIO()
    outcome = a_uv(tmp_path, "hunter2", log=log).run("pip", "compile", "no such file hunter2.in")
    assert not outcome.succeeded
    text = log.getvalue().decode()
    assert text.startswith("$ uv pip compile 'no such file ***.in'\n")
    assert "hunter2" not in text + outcome.output
    assert "error" in text


def test_a_cancelled_build_stops_uv(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBuildError, match="was stopped"):
        a_uv(tmp_path, cancelled=True).run("pip", "list")


def test_two_threads_never_look_for_uv_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # What it asks of sysconfig is half done for a second thread: the first answer would be None there.
    inside, most = [0], [0]
    both = threading.Event()

    def look() -> str:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        both.wait(0.2)  # for the other thread to come in, if it can
        inside[0] -= 1
        return "/the/uv"

    monkeypatch.setattr("uv.find_uv_bin", look)
    threads = [threading.Thread(target=find_uv) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
