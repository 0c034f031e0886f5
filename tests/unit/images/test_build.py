"""What building an image decides before any engine is asked."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest

from .conftest import IMAGES


@pytest.fixture
def copy(build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of images to change."""
    shutil.copytree(IMAGES, tmp_path / "images", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(build, "IMAGES", tmp_path / "images")
    return tmp_path / "images"


@pytest.mark.parametrize("file", ["ray-cpu/Dockerfile", "ray-cpu/requirements.txt", "ray_alive.py", ".dockerignore"])
def test_the_digest_follows_what_is_in_the_image(build: ModuleType, copy: Path, file: str) -> None:
    before = build.digest("ray-cpu", None)
    with (copy / file).open("a", encoding="utf-8") as changed:
        changed.write("\n# more\n")
    assert build.digest("ray-cpu", None) != before
    assert len(before) == 12


def test_the_digest_is_another_on_another_base_and_the_same_beside_other_images(build: ModuleType, copy: Path) -> None:
    before = build.digest("ray-cpu", None)
    assert build.digest("ray-cpu", "debootstrap") != before
    (copy / "ray-cuda" / "Dockerfile").write_text("FROM scratch\n", encoding="utf-8")
    assert build.digest("ray-cpu", None) == before


def test_the_digest_is_printed_without_an_engine(build: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    build.main(["ray-cpu", "--base", "debootstrap", "--digest"])
    assert capsys.readouterr().out == f"{build.digest('ray-cpu', 'debootstrap')}\n"


def test_an_image_on_a_base_of_its_own_takes_no_other(build: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build.main(["ray-cuda", "--base", "debian:12"])
    assert "ray-cuda stands on an image of its own" in capsys.readouterr().err


def test_pips_configuration_is_a_secret_where_there_is_one(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "my pip.conf"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    assert build.pip_secret() == []
    config.write_text("[global]\n", encoding="utf-8")
    assert build.pip_secret() == [f"--secret=id=pip_conf,src={config}"]


def test_a_command_that_fails_shows_the_end_of_what_it_said(build: ModuleType) -> None:
    with pytest.raises(SystemExit) as caught:
        build.run(["sh", "-c", "seq 100; exit 3"], quiet=True)
    lines = str(caught.value).splitlines()
    assert (lines[0], lines[-2], lines[-1]) == ("71", "100", "sh -c seq 100; exit 3 ... ended with 3")
