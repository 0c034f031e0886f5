"""The one door to the git program: never runs hooks, asks for nothing, takes no locks, pages nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from airlane.errors import SnapshotError
from airlane.frozen import frozen
from airlane.snapshot.remote_url import hide_credentials

# Variables that would point git at another repository than the one around the user's folder (as inside a hook).
_FOREIGN = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_EXTERNAL_DIFF",
    "GIT_TRACE",
)
_QUIET = ("--no-pager", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "gc.auto=0")


class GitMissingError(SnapshotError):
    """There is no usable git program on this machine."""


@frozen
class Answer:
    """What one git command said; `problem` is its stderr without credentials."""

    code: int
    output: bytes
    problem: str

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def text(self) -> str:
        return os.fsdecode(self.output).removesuffix("\n")

    @property
    def last_words(self) -> str:
        """The line of stderr that says what was wrong."""
        lines = [line for line in self.problem.splitlines() if line.strip() and not line.startswith("hint:")]
        fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
        chosen = (fatal or lines or [f"exit code {self.code}"])[-1]
        return chosen.removeprefix("fatal:").removeprefix("error:").strip()


@frozen
class Git:
    """Git commands in a folder. `git_dir` names a repository to use instead of the one around the folder."""

    folder: Path
    git_dir: Path | None = None

    def ask(self, *arguments: str | bytes, stdin: bytes = b"", timeout_s: float | None = None) -> Answer:
        """Run one command and give what it said, whatever its exit code.

        Raises:
            GitMissingError: git is not installed.
            SnapshotError: the time is up.
        """
        import subprocess  # 10 ms that `air --help` need not pay

        command = self._command(*arguments)
        try:
            done = subprocess.run(
                command,
                env=self._environment(),
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except FileNotFoundError:
            raise _missing() from None
        except subprocess.TimeoutExpired:
            verb = next(os.fsdecode(part) for part in arguments if not os.fsdecode(part).startswith("-"))
            raise SnapshotError(f"git {verb} in {self.folder} gave no answer within {timeout_s:g} s") from None
        problem = hide_credentials(done.stderr.decode("utf-8", "replace"))
        if done.returncode != 0 and ("xcode-select" in problem or "xcrun: error" in problem):
            raise _missing()  # macOS ships a git that only says where to get one
        return Answer(done.returncode, done.stdout, problem)

    def read(self, *arguments: str | bytes) -> bytes:
        """The output of a command that has to succeed.

        Raises:
            SnapshotError: it did not; the message carries git's own words.
        """
        answer = self.ask(*arguments)
        if not answer.ok:
            raise SnapshotError(f"git failed in {self.folder}: {answer.last_words}")
        return answer.output

    @contextmanager
    def stream(self, *arguments: str | bytes) -> Iterator[IO[bytes]]:
        """The output of a long command as it comes; an exception inside ends the command.

        Raises:
            GitMissingError: git is not installed.
            SnapshotError: the command failed.
        """
        import subprocess
        import tempfile

        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    self._command(*arguments),
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    bufsize=1 << 20,
                )
            except FileNotFoundError:
                raise _missing() from None
            assert process.stdout is not None  # noqa: S101 - PIPE was asked for
            with process:
                try:
                    yield process.stdout
                    while process.stdout.read(1 << 20):
                        pass  # what the reader did not need; a full pipe would keep git from ending
                except BaseException:
                    process.kill()
                    raise
            errors.seek(0)
            problem = hide_credentials(errors.read().decode("utf-8", "replace"))
        if process.returncode != 0:
            raise SnapshotError(f"git failed in {self.folder}: {Answer(process.returncode, b'', problem).last_words}")

    def _command(self, *arguments: str | bytes) -> list[str | bytes | Path]:
        place: list[str | bytes | Path] = ["git", "-C", self.folder]
        if self.git_dir is not None:
            place += [b"--git-dir=" + os.fsencode(self.git_dir), b"--work-tree=" + os.fsencode(self.folder)]
        return [*place, *_QUIET, *arguments]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        return kept | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "LANGUAGE": "C"}


def _missing() -> GitMissingError:
    return GitMissingError("git is not installed on this machine", hint="install git, for example: apt-get install git")
