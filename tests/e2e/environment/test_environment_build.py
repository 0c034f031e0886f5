"""Building environments with the real uv, from packages of our own and without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airlane.environment import BuiltEnvironment, build, hold, list_environments, prune, show
from airlane.errors import EnvironmentBuildError

from .conftest import World


def version_of(environment: BuiltEnvironment, module: str) -> str:
    command = [str(environment.python), "-c", f"import {module}; print({module}.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def build_quietly(world: World, *dependencies: str) -> BuiltEnvironment:
    return build(world.plan(*dependencies), progress=lambda _: None)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


def test_a_base_is_built_as_locked_and_found_again(world: World) -> None:
    first = build_quietly(world)
    assert (version_of(first, "alpha"), version_of(first, "beta")) == ("1.0", "1.0")
    assert first.duration_s is not None
    again = build(world.plan(), progress=pytest.fail)
    assert again.duration_s is None
    assert again.folder == first.folder
    assert world.plan().cached
    assert not world.leftovers()


def test_a_script_runs_from_where_the_environment_has_come_to_lie(world: World) -> None:
    environment = build_quietly(world)
    variables = {**os.environ, **environment.variables()}
    printed = subprocess.run(["show-alpha"], env=variables, capture_output=True, text=True, check=True).stdout
    assert printed == "1.0\n"
    assert not list(environment.bin_folder.glob("*.pyc"))


def test_the_log_and_the_lock_travel_with_the_environment(world: World, tmp_path: Path) -> None:
    log = tmp_path / "setup.log"
    environment = build(world.plan("beta"), log=log, progress=lambda _: None)
    assert (environment.folder / "requirements.lock").read_text(encoding="utf-8") == "alpha==1.0\nbeta==1.0\n"
    assert "$ uv pip compile" in log.read_text(encoding="utf-8")
    assert log.read_bytes() == (environment.folder / "build.log").read_bytes()


def test_a_dependency_that_the_base_satisfies_changes_nothing(world: World) -> None:
    environment = build_quietly(world, "alpha>=0.5", "beta>=1")
    assert (version_of(environment, "alpha"), version_of(environment, "beta")) == ("1.0", "1.0")


def test_the_users_dependency_wins_over_the_bases_pin_and_is_told(world: World) -> None:
    told: list[str] = []
    environment = build(world.plan("alpha==2.0", "beta>1"), progress=told.append)
    assert (version_of(environment, "alpha"), version_of(environment, "beta")) == ("2.0", "1.5")
    assert "with alpha 2.0 (the base has 1.0)" in told
    assert show(world.home, str(world.plan("alpha==2.0", "beta>1").key)).moved == ("alpha 2.0 (the base has 1.0)",)


def test_a_dependency_of_a_dependency_may_move_the_base_too(world: World) -> None:
    world.add_wheel("gamma", "1.0", "alpha>=2")
    environment = build_quietly(world, "gamma")
    assert version_of(environment, "alpha") == "2.0"


def test_what_cannot_be_resolved_shows_uvs_own_explanation(world: World) -> None:
    with pytest.raises(EnvironmentBuildError) as caught:
        build_quietly(world, "alpha>=2", "alpha<2", "beta")
    assert "No solution found" in caught.value.message
    assert "you require alpha>=2" in caught.value.message.replace("\n", " ")
    assert caught.value.hint is not None
    assert not world.leftovers()
    assert list_environments(world.home) == ()


def test_a_package_that_nobody_knows_is_named(world: World) -> None:
    with pytest.raises(EnvironmentBuildError, match="omega"):
        build_quietly(world, "omega")


def test_wheels_files_and_constraints_are_installed(world: World) -> None:
    world.add_wheel("delta", "3.0").rename(world.root / "delta-3.0-py3-none-any.whl")
    (world.root / "reqs.txt").write_text(
        "delta @ ${WHERE}/delta-3.0-py3-none-any.whl\n-c limits.txt\n", encoding="utf-8"
    )
    (world.root / "limits.txt").write_text("beta!=1.0\n", encoding="utf-8")
    environ = {**os.environ, "WHERE": world.root.as_uri()}
    environment = build(world.plan("-r reqs.txt"), progress=lambda _: None, environ=environ)
    assert (version_of(environment, "delta"), version_of(environment, "beta")) == ("3.0", "1.5")
    local = build_quietly(world, "./delta-3.0-py3-none-any.whl")
    assert version_of(local, "delta") == "3.0"


def test_pips_constraints_hold_for_environments(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = world.root / "pip limits.txt"
    limits.write_text("beta<1.5\n", encoding="utf-8")
    config = world.root / "pip.conf"
    config.write_text(f"[global]\nno-index = true\nfind-links = {world.wheels.as_uri()}\n", encoding="utf-8")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.setattr("airlane.environment.pip_settings._location", lambda word: str(limits) if word else word)
    monkeypatch.setenv("PIP_CONSTRAINT", "limits")
    with pytest.raises(EnvironmentBuildError, match="No solution found"):
        build_quietly(world, "beta>=1.5")


def test_values_of_variables_reach_no_log_and_no_file(world: World, tmp_path: Path) -> None:
    log = tmp_path / "setup.log"
    environ = {**os.environ, "TOKEN": "hunter2hunter2"}
    lines = ("--extra-index-url https://me:$TOKEN@localhost:1/simple", "beta")
    environment = build(world.plan(*lines), log=log, progress=lambda _: None, environ=environ)
    assert "hunter2" not in log.read_text(encoding="utf-8")
    for path in environment.folder.glob("*.*"):
        assert b"hunter2" not in path.read_bytes()
    with pytest.raises(EnvironmentBuildError) as caught:
        build(world.plan("x @ https://u:$TOKEN@localhost:1/x-1.zip"), progress=lambda _: None, environ=environ)
    assert "hunter2" not in caught.value.message


def test_a_second_environment_shares_files_and_bytecode_with_the_first(world: World) -> None:
    first = build_quietly(world)
    version_of(first, "alpha")
    environ = {**os.environ, **first.variables()}
    subprocess.run([first.python, "-c", "import alpha"], env=environ, check=True)
    second = build_quietly(world, "beta==1.0")
    places = [next(env.folder.glob("lib/*/site-packages")) for env in (first, second)]
    for name in ("alpha.py", f"__pycache__/alpha.{sys.implementation.cache_tag}.pyc"):
        assert (places[0] / name).samefile(places[1] / name)


def test_an_environment_whose_interpreter_has_gone_is_built_again(world: World) -> None:
    first = build_quietly(world)
    first.python.unlink()
    assert not world.plan().cached
    assert version_of(build_quietly(world), "alpha") == "1.0"
    assert len(list_environments(world.home)) == 1
    assert not world.leftovers()


def test_builders_of_the_same_environment_wait_for_the_first(
    world: World, wait_for: Callable[[Callable[[], object], str], None]
) -> None:
    gated = world.add_gated_sdist()
    first = world.builder(gated)
    started = Path(f"{world.gate}.started")
    wait_for(started.exists, "the first build")
    others = [world.builder(gated) for _ in range(2)]
    try:
        for other in others:
            assert other.stdout is not None
            assert "waiting for another run" in other.stdout.readline()
        world.gate.touch()
        outputs = [process.communicate(timeout=60)[0] for process in (first, *others)]
    finally:
        for process in (first, *others):
            process.kill()
    folder = str(world.plan(gated).folder)
    assert [output.splitlines()[-1] for output in outputs] == [folder] * 3
    assert [output.count("resolving") for output in outputs] == [1, 0, 0]
    assert len(started.read_text(encoding="utf-8").split()) == 1


def test_a_build_that_was_killed_is_done_again_by_the_next(
    world: World, wait_for: Callable[[Callable[[], object], str], None]
) -> None:
    gated = world.add_gated_sdist()
    first = world.builder(gated)
    wait_for(Path(f"{world.gate}.started").exists, "the first build")
    first.kill()
    first.communicate()
    assert not world.plan(gated).cached
    assert world.leftovers()
    second = world.builder(gated)
    assert second.stdout is not None
    # The orphaned uv still writes: it holds the lock that it inherited.
    assert "waiting for another run" in second.stdout.readline()
    world.gate.touch()
    assert second.communicate(timeout=60)[0].splitlines()[-1] == str(world.plan(gated).folder)
    assert world.plan(gated).cached
    assert not world.leftovers()


def test_a_cancelled_build_leaves_no_process_and_no_folder(
    world: World, wait_for: Callable[[Callable[[], object], str], None]
) -> None:
    gated = world.add_gated_sdist()
    started = Path(f"{world.gate}.started")
    with pytest.raises(EnvironmentBuildError, match="was stopped"):
        build(world.plan(gated), progress=lambda _: None, cancelled=started.exists)
    (pid,) = map(int, started.read_text(encoding="utf-8").split())
    wait_for(lambda: not alive(pid), "the end of the build backend")
    assert not world.leftovers()


def test_an_environment_in_use_survives_a_prune(world: World) -> None:
    build_quietly(world)
    key = world.plan().key
    with hold(world.home, key):
        assert prune(world.home, older_than_days=0) == ()
    assert [info.key for info in prune(world.home, older_than_days=0)] == [key]
    assert not world.plan().cached


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a small file system")
    folder = tmp_path / "small disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not allow to mount a file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.root
def test_a_full_disk_is_told_as_such_and_leaves_nothing(world: World, small_disk: Path) -> None:
    world.add_wheel("huge", "1.0", padding_bytes=4_000_000)
    world.home = type(world.home)(small_disk / "home")
    with pytest.raises(EnvironmentBuildError, match="There is no space left"):
        build_quietly(world, "huge")
    assert not world.leftovers()
