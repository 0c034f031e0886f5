"""Folders that are ready to run: what `air init` copies of the recipes and examples that come with Airlane."""

from __future__ import annotations

import errno
import os
import posixpath
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import airlane
from airlane.errors import AirError, ConflictError
from airlane.frozen import frozen

WORKLOAD = "train.yaml"
PAGE = "README.md"
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_EDITOR_LINE = re.compile(r"\A# yaml-language-server:.*\n(?:#\n)?")  # names a file that stays behind


@frozen
class Starter:
    """What is copied: the parts of recipes/ that a recipe consists of, itself first, or a folder of examples/."""

    summary: str
    parts: tuple[str, ...] = ()
    example: str = ""


STARTERS: Mapping[str, Starter] = {
    "sft": Starter("fine-tune a language model on your examples", parts=("sft", "engine")),
    "pretrain": Starter("train a language model from scratch on your text", parts=("pretrain", "engine")),
    "tune": Starter("search for the settings that fine-tune best", parts=("tune", "sft", "engine")),
    "batch": Starter("let a model answer a file of prompts", parts=("batch", "engine")),
    "ray": Starter("a Ray Train program of a few files, to make your own", example="ray-train"),
    "command": Starter("any program of yours, with parameters and checkpoints", example="command"),
}


@frozen
class Written:
    """A folder that is there now, and the files in it; the names are relative to it."""

    kind: str
    folder: Path
    files: tuple[str, ...]

    @property
    def workload(self) -> Path:
        return self.folder / WORKLOAD


def write_starter(kind: str, folder: Path) -> Written:
    """Write the folder of a kind in STARTERS; it is there with all its files or, whatever happens, not at all.

    Raises:
        ConflictError: something is there already.
        AirError: it cannot be written.
    """
    contents = starter_contents(kind)
    try:
        _refuse_what_is_there(kind, folder)
        _write_at_once(folder.resolve(), contents)
    except (OSError, RuntimeError) as error:  # the latter is how Python before 3.13 tells of links in a circle
        raise AirError(
            f"{folder} cannot be written: {_reason(folder, error)}",
            hint=f"air init {kind} FOLDER   with a folder elsewhere",
        ) from error
    return Written(kind, folder, tuple(contents))


def _refuse_what_is_there(kind: str, folder: Path) -> None:
    if folder.is_dir():
        if any(folder.iterdir()):
            other = folder.resolve().with_name(f"{folder.resolve().name}-{kind}")
            free = other.name if folder.parent == Path() else str(folder.parent / other.name)
            raise ConflictError(
                f"{folder} is not empty; a folder that is new or empty was needed, so that nothing is overwritten",
                hint=f"air init {kind} {shlex.quote(free)}",
            )
    elif folder.exists() or folder.is_symlink():
        raise ConflictError(f"{folder} is there already, and is no folder", hint=f"air init {kind} my-{kind}")


def _reason(folder: Path, error: Exception) -> str:
    """What is in the way; a file above the folder is told as one, whichever way the system puts it."""
    for above in reversed(folder.parents):
        if os.path.lexists(above) and not os.path.isdir(above):  # noqa: PTH112 - Path.is_dir raises for some of these
            return f"{above} is no folder"
    return (getattr(error, "strerror", None) or str(error)).lower()


def starter_contents(kind: str) -> dict[str, bytes]:
    """Every file of the folder, by its name below it, sorted."""
    starter, root = STARTERS[kind], _copied_from()
    if starter.example:
        example = PurePosixPath("examples", starter.example)
        places = {str(name): str(name.relative_to(example)) for name in _files(root, example)}
    else:
        recipe = PurePosixPath("recipes", starter.parts[0])
        places = {str(recipe / name): name for name in (WORKLOAD, PAGE)}
        places |= {str(name): str(name) for name in _package(root, starter.parts)}
    made = {}
    for source, place in places.items():
        content = (root / source).read_bytes()
        made[place] = _moved(content, source, places) if place in {WORKLOAD, PAGE} else content
    return dict(sorted(made.items()))


def _copied_from() -> Path:
    """Where recipes/ and examples/ are: beside this package's code where it was installed, else in the repository."""
    package = Path(airlane.__file__).resolve().parent
    installed = package / "starters"
    return installed if installed.is_dir() else package.parent.parent


def _package(root: Path, parts: tuple[str, ...]) -> Iterator[PurePosixPath]:
    """The modules at the top of recipes/, and all of its parts but their workloads and pages."""
    top = PurePosixPath("recipes")
    yield from (top / file.name for file in sorted((root / top).glob("*.py")))
    for part in parts:
        pages = {top / part / WORKLOAD, top / part / PAGE}
        yield from (name for name in _files(root, top / part) if name not in pages)


def _files(root: Path, below: PurePosixPath) -> Iterator[PurePosixPath]:
    for folder, folders, names in os.walk(root / below):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield PurePosixPath(Path(folder, name).relative_to(root).as_posix())


def _moved(content: bytes, source: str, places: Mapping[str, str]) -> bytes:
    """The workload or page with what it says about places made right for the new folder."""
    text = _EDITOR_LINE.sub("", content.decode())
    text = text.replace("root_path: ../..", "root_path: .").replace(f"{posixpath.dirname(source)}/{WORKLOAD}", WORKLOAD)

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if not target or ":" in target:
            return match[0]
        place = places.get(posixpath.normpath(posixpath.join(posixpath.dirname(source), target)))
        return f"[{words}]({place}{anchor})" if place else words

    return (_LINK.sub(link, text) if source.endswith(PAGE) else text).encode()


def _write_at_once(target: Path, contents: Mapping[str, bytes]) -> None:
    """Write beside the folder, then rename; what is in the way by then stays, and is an OSError."""
    existed = target.is_dir()
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        for name, content in contents.items():
            file = beside / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        if existed:  # perhaps the one that the caller's shell stands in: it has to stay the same folder
            _move_into(target, beside)
        else:
            beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _move_into(target: Path, beside: Path) -> None:
    """Move everything into an empty folder, the workload last: without it, nothing there would run."""
    if any(target.iterdir()):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(target))
    for entry in sorted(beside.iterdir(), key=lambda entry: entry.name == WORKLOAD):
        entry.rename(target / entry.name)
