"""Images from archives and registries: loaded once, compared by digest, and refused with the next step."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airlane.api import Run
from airlane.launch.image_archive import read_facts
from airlane.store.runs import RunView
from e2e.runs.conftest import ended

from .conftest import BoxedLane, write_tar

pytestmark = pytest.mark.root


def log_of(run: Run) -> str:
    return run.view().paths.log(attempt=0, node=0).read_text()


def summary_of(view: RunView) -> str:
    assert view.cause is not None
    assert view.cause.kind == "setup"
    assert len(view.attempts) == 1, "what cannot get better is not tried again"
    return view.cause.summary


def test_an_archive_is_loaded_once(boxed: BoxedLane, made_image: Callable[[str], Path]) -> None:
    archive = made_image(f"once {time.time_ns()}")
    first = boxed.lane.submit(boxed.workload("true", image=archive))
    assert ended(first).state == "SUCCESS"
    assert f"[airlane] loading {archive}" in log_of(first)
    second = boxed.lane.submit(boxed.workload("echo quick", image=archive))
    assert ended(second).state == "SUCCESS"
    assert log_of(second) == "quick\n"


def test_nodes_that_need_the_same_image_at_once_load_it_once(
    boxed: BoxedLane, made_image: Callable[[str], Path]
) -> None:
    archive = made_image(f"together {time.time_ns()}")
    run = boxed.lane.submit(boxed.workload("true", image=archive, nodes=3))
    view = ended(run)
    assert view.state == "SUCCESS"
    logs = "".join(view.paths.log(attempt=0, node=node).read_text() for node in range(3))
    assert logs.count("[airlane] loading") == 1


def test_the_same_tag_with_a_newer_image_is_the_newer_image(
    boxed: BoxedLane, made_image: Callable[[str], Path]
) -> None:
    before = made_image(f"before {time.time_ns()}")
    assert ended(boxed.lane.submit(boxed.workload("true", image=before))).state == "SUCCESS"
    after = made_image(f"after {time.time_ns()}")  # the same file, the same tag
    run = boxed.lane.submit(boxed.workload("true", image=after))
    assert ended(run).state == "SUCCESS"
    image = run.view().record.image
    assert image is not None
    assert image.digests[0] == read_facts(str(after)).config
    assert image.digests[0] in boxed.engine("images", "--no-trunc", "--quiet").split()


def test_an_archive_that_changes_after_the_submission_is_not_run(
    boxed: BoxedLane, made_image: Callable[[str], Path]
) -> None:
    archive = made_image(f"planned {time.time_ns()}")
    client = boxed.lane.client
    plan = client.plan(boxed.workload("echo never", image=archive))
    made_image(f"changed {time.time_ns()}")
    words = summary_of(ended(client.submit(plan)))
    assert "holds another image than when the run was submitted" in words
    assert "submit the run again to use the new one" in words


def test_a_damaged_archive_is_refused_at_submission(boxed: BoxedLane, image: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(image.read_bytes()[:-1000])
    done = boxed.lane.air("run", "-f", boxed.workload("true", image=cut))
    assert done.returncode == 1
    assert f"The image {cut} is damaged or cut off" in done.stderr
    assert "docker save IMAGE | gzip > cut.tar.gz" in done.stderr


def test_an_archive_whose_layer_is_damaged_is_an_error_with_the_engines_words(boxed: BoxedLane, tmp_path: Path) -> None:
    write_tar(tmp_path / "layer.tar", {"a": b"x" * 100_000})
    layer = (tmp_path / "layer.tar").read_bytes()
    wanted = hashlib.sha256(f"another layer {time.time_ns()}".encode()).hexdigest()
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{wanted}"]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": ["damaged:1"], "Layers": ["layer.tar"]}]).encode()
    damaged = tmp_path / "damaged.tar"
    write_tar(damaged, {name: config, "layer.tar": layer, "manifest.json": manifest})
    words = summary_of(ended(boxed.lane.submit(boxed.workload("true", image=damaged))))
    assert f"{boxed.engine.runtime} could not load {damaged}" in words


def test_a_reference_that_is_here_is_not_pulled(boxed: BoxedLane, image: Path) -> None:
    with gzip.open(image) as unpacked:
        content = unpacked.read()
    plain = boxed.lane.folder / "plain.tar"
    plain.write_bytes(content)
    boxed.engine("load", "--input", str(plain))
    name = "airlane-small:1" if boxed.engine.runtime == "docker" else "localhost/airlane-small:1"
    run = boxed.lane.submit(boxed.workload("echo here", image=name))
    assert ended(run).state == "SUCCESS"
    assert log_of(run) == "here\n"


def test_a_pull_that_fails_is_an_error_of_the_run(boxed: BoxedLane) -> None:
    # Nothing listens on the discard port of this machine.
    workload = boxed.workload("echo never", image="127.0.0.1:9/none/such:1")
    words = summary_of(ended(boxed.lane.submit(workload), within_s=60))
    assert "the image 127.0.0.1:9/none/such:1 could not be pulled" in words
    assert "credentials_scope" in words


def test_tag_policy_latest_never_runs_an_old_image_silently(boxed: BoxedLane, image: Path) -> None:
    ended(boxed.lane.submit(boxed.workload("true", image=image)))
    name = "127.0.0.1:9/airlane-small:1"
    boxed.engine("tag", read_facts(str(image)).config.removeprefix("sha256:"), name)
    settings = {"docker_image": {"url": name, "tag_policy": "latest"}}
    run = boxed.lane.submit(boxed.lane.workload("echo never", environment=settings))
    assert "could not be pulled" in summary_of(ended(run, within_s=60))
    assert ended(boxed.lane.submit(boxed.workload("true", image=name))).state == "SUCCESS"


def test_a_cancel_while_an_image_is_pulled_ends_at_once(boxed: BoxedLane) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never answers
        name = f"127.0.0.1:{silent.getsockname()[1]}/none/such:1"
        run = boxed.lane.submit(boxed.workload("echo never", image=name))
        silent.settimeout(30)
        with silent.accept()[0]:
            begun = time.monotonic()
            boxed.lane.client.cancel([run.id])
            assert ended(run).state == "CANCELED"
            assert time.monotonic() - begun < 10


def test_an_image_without_bash_says_so(boxed: BoxedLane, tmp_path: Path) -> None:
    empty = tmp_path / "empty.tar"
    write_tar(tmp_path / "root.tar", {"a": b"x"})
    boxed.engine("import", str(tmp_path / "root.tar"), "airlane-empty:1")
    boxed.engine("save", "--output", str(empty), "airlane-empty:1")
    words = summary_of(ended(boxed.lane.submit(boxed.workload("true", image=empty))))
    assert "could not start a container" in words
    assert "bash" in words


def test_a_profile_without_containers_refuses_images(boxed: BoxedLane) -> None:
    config = Path(boxed.lane.env["AIR_CONFIG"])
    config.write_text('[profiles.local]\ntracking_uri = "none"\ncontainer = "none"\n')
    done = boxed.lane.air("run", "-f", boxed.workload("true"))
    assert done.returncode == 1
    assert 'the profile local runs no containers (container = "none")' in done.stderr
