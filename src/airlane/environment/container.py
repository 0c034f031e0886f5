"""The container image of a run: what it is, what runs it, and the digest of an archive, which is read only once."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from airlane.errors import ConfigError, EnvironmentBuildError
from airlane.launch import image_archive
from airlane.launch.container_argv import RUNTIMES, takers
from airlane.launch.image_archive import ENDINGS, GZIP, SIF, SQUASHFS, ArchiveError
from airlane.launch.order import ContainerOrder
from airlane.spec.models import DockerImage
from airlane.spec.profiles import NO_CONTAINERS, Profile
from airlane.store.disk import SystemDisk
from airlane.store.paths import Home, RunPaths
from airlane.store.records import REGISTRY_LOGIN, ImageRecord

# A compressed archive is unpacked to find its manifest: a larger one is read once the run is submitted.
_READ_AT_ONCE_BYTES = 256 * 1024 * 1024
_NEEDS_NO_DIGEST = (SQUASHFS, SIF)


def plan_image(image: DockerImage, profile: Profile, home: Home, *, touch: bool) -> ImageRecord:
    """What a workload's image would run in; with `touch`, what is read of an archive is kept for the next plan.

    Raises:
        ConfigError: the profile allows no containers, or its runtime does not take the image.
        EnvironmentBuildError: the archive is damaged.
    """
    if profile.container == NO_CONTAINERS:
        raise ConfigError(
            f'the profile {profile.name} runs no containers (container = "none")',
            hint="use environment.version and environment.dependencies, or another profile: -p PROFILE",
        )
    is_archive = image.url.endswith(ENDINGS)
    if is_archive and profile.container is not None and profile.container not in takers(image.url):
        raise ConfigError(
            f"{profile.container} (the profile {profile.name}) cannot run {image.url}",
            hint=f"set container in the profile to {' or '.join(takers(image.url))}, or name another image",
        )
    scope, key = image.credentials_scope, image.credentials_key
    record = ImageRecord(
        url=image.url,
        is_archive=is_archive,
        runtime=profile.container,
        pull_always=image.tag_policy == "latest",
        credentials=f"{scope}/{key}" if scope and key else None,
        mounts=profile.mounts,
        arguments=profile.container_args,
    )
    return with_digests(record, home, touch=touch, at_once=True) if is_archive else record


def with_digests(
    record: ImageRecord,
    home: Home,
    *,
    touch: bool = True,
    at_once: bool = False,
    progress: Callable[[str], None] | None = None,
) -> ImageRecord:
    """The record of an archive with what its image is called; with `at_once`, only where that takes no time.

    Raises:
        EnvironmentBuildError: the archive is damaged, or cannot be read.
    """
    path = Path(record.url)
    try:
        stamp = image_archive.stamp(record.url)
        known = _kept(home, path, stamp)
        kind = image_archive.kind_of(record.url)
        if known is None and kind in _NEEDS_NO_DIGEST:
            known = (f"{kind}:{stamp}",)
        if known is None and kind == GZIP and at_once and path.stat().st_size > _READ_AT_ONCE_BYTES:
            return record
        if known is None:
            facts = image_archive.read_facts(record.url, _in_percent(path, progress))
            known = (facts.config, *facts.manifests)
            if touch:
                _keep(home, path, stamp, known)
    except ArchiveError as error:
        raise EnvironmentBuildError(
            f"The image {path} {error}.", hint=f"write it again: docker save IMAGE | gzip > {path.name}"
        ) from error
    except OSError as error:
        raise EnvironmentBuildError(f"The image {path} cannot be read: {error.strerror}") from error
    return replace(record, digests=known, stamp=stamp)


def container_order(record: ImageRecord, paths: RunPaths) -> ContainerOrder:
    """What a node is told about its container. The run's folder holds its code, its checkpoints and its records."""
    return ContainerOrder(
        image=record.url,
        runtime=record.runtime,
        is_archive=record.is_archive,
        digests=record.digests,
        stamp=record.stamp,
        pull_always=record.pull_always,
        folders=(str(paths.root),),
        mounts=record.mounts,
        arguments=record.arguments,
        credentials=REGISTRY_LOGIN if record.credentials is not None else None,
    )


def runtime_words(record: ImageRecord) -> str:
    """What would run the image, for people."""
    if record.runtime is not None:
        return record.runtime
    names = takers(record.url) if record.is_archive else RUNTIMES
    return names[0] if len(names) == 1 else f"the first of {', '.join(names)} on the node"


def _in_percent(path: Path, progress: Callable[[str], None] | None) -> Callable[[int], None] | None:
    if progress is None:
        return None
    size = max(1, path.stat().st_size)
    return lambda done: progress(f"reading {path.name}: {100 * done // size} % of {size / 1e6:.0f} MB")


def _note(home: Home, path: Path) -> Path:
    return home.images / f"{hashlib.sha256(bytes(path)).hexdigest()[:20]}.json"


def _kept(home: Home, path: Path, stamp: str) -> tuple[str, ...] | None:
    try:
        kept = json.loads(_note(home, path).read_text())
    except (OSError, ValueError):
        return None
    return tuple(kept["digests"]) if kept.get("stamp") == stamp else None


def _keep(home: Home, path: Path, stamp: str, digests: tuple[str, ...]) -> None:
    """Only a cache: where it cannot be written, the archive is read again."""
    with contextlib.suppress(OSError):
        home.images.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"archive": str(path), "stamp": stamp, "digests": digests})
        SystemDisk().replace(_note(home, path), text.encode("utf-8", "surrogateescape"))
