"""The lines of a log as a person reads them: no colours, no carriage returns, and apart from the name of their rank."""

from __future__ import annotations

import re

from airlane.frozen import frozen

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_PREFIX = re.compile(
    r"""
    \((?:\w[\w.<>]*(?:\([^()]*\))?\ )?pid=\d+[^()]*\)\ ?   # (RayTrainWorker pid=123, ip=10.0.0.2)
    | \((?:raylet|autoscaler|gcs_server)[^()]*\)\ ?        # (raylet, ip=10.0.0.2)
    | \[(?:rank|default)\ ?\d+\]:\ ?                       # [rank0]: of torch, [default0]: of torchrun
    | \[(?:node|rank)\ \d+\]\ ?
    | \[\d+,\d+\]<std(?:err|out)>:\ ?                      # mpirun
    | \d{1,5}:\ (?=\S|\s{2})                               # srun --label
    """,
    re.VERBOSE,
)
_GROUP_GUTTER = re.compile(r"^\s+\| ?")
_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\].*$")


@frozen
class Line:
    """One line; `prefix` is what named the rank or process that wrote it ("" where nothing did)."""

    prefix: str
    text: str

    def shown(self) -> str:
        return f"{self.prefix}{self.text.strip()}"


def read_lines(raw: bytes) -> list[Line]:
    """The lines of a piece of a log; bytes that are not UTF-8 become U+FFFD."""
    return [_line(text) for text in raw.decode("utf-8", "replace").split("\n")]


def _line(text: str) -> Line:
    text = _ANSI.sub("", text).rstrip()
    text = text.rsplit("\r", 1)[-1]  # what a progress bar left on the screen
    text = _UNSEEN.sub("", text)
    end = 0
    while match := _PREFIX.match(text, end):
        end = match.end()
    return Line(text[:end], _REPEATED.sub("", _GROUP_GUTTER.sub("", text[end:])))
