"""Dependencies as Ray's own uv environment. What Ray says was recorded from Ray 2.60, paths shortened."""

from __future__ import annotations

from typing import Any

import pytest

from airlane.backends.ray.uv_environment import runtime_env, setup_failure
from airlane.errors import ConfigError

_TRACEBACK = """\
Failed to set up runtime environment.
[Node 10.0.0.2] Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/ray/_private/runtime_env/uv.py", line 240, in _install_uv_packages
    await check_output_cmd(uv_install_cmd, logger=logger, cwd=cwd, env=pip_env)
ray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[22] failed with the following details.
"""
UNSATISFIABLE = f"""{_TRACEBACK}\
Command '['/s/virtualenv/bin/python', '-m', 'uv', 'pip', 'install', '-r', '/s/reqs.txt', '--no-cache']' returned \
non-zero exit status 1.
Last 50 lines of stdout:
    Using Python 3.11.7 environment at: /s/virtualenv
    error: No solution found when resolving dependencies
      cause: Because only numpy>=1.3.0 is available and you require numpy<1, we can conclude that your \
requirements are unsatisfiable.

"""
NO_INSTALLER = f"""{_TRACEBACK}\
Command '['/s/virtualenv/bin/python', '-m', 'pip', 'install', 'uv']' returned non-zero exit status 1.
Last 50 lines of stdout:
    /s/virtualenv/bin/python: No module named pip
"""
OTHER_RAY = """\
Failed to set up runtime environment.
[Node 10.0.0.2] Traceback (most recent call last):
    raise RuntimeError(
RuntimeError: Changing the ray version is not allowed: \n  current version: 2.50.0,   expect version: 2.60.0,   \
current path: /s/ray, expect path: /env/ray, Please ensure the dependencies in the runtime_env pip field do not \
install a different version of Ray.
"""


def uv(*dependencies: str, ray: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = runtime_env(dependencies, ray=ray)["uv"]
    return found


def test_packages_travel_as_they_are_written_and_in_order() -> None:
    assert runtime_env(["fsspec>=2024.6.1", "  einops  # for attention", "tomli ; python_version < '3.12'"]) == {
        "uv": {
            "packages": ["fsspec>=2024.6.1", "einops", "tomli ; python_version < '3.12'"],
            "uv_pip_install_options": ["--no-cache"],
        }
    }


@pytest.mark.parametrize("dependencies", [[], [""], ["# nothing"], ["--pre"]])
def test_without_packages_there_is_no_environment_to_build(dependencies: list[str]) -> None:
    assert runtime_env(dependencies) == {}


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("--index-url https://pypi.org/simple", "--index-url=https://pypi.org/simple"),
        ("-i https://pypi.org/simple", "--index-url=https://pypi.org/simple"),
        ("--index-url=https://$NAME@pypi.lab.example/simple", "--index-url=https://$NAME@pypi.lab.example/simple"),
        ("-f https://download.pytorch.org/whl", "--find-links=https://download.pytorch.org/whl"),
        ("--find-links $WHEELS", "--find-links=$WHEELS"),
        ("--no-index", "--no-index"),
        ("--pre", "--prerelease=allow"),
        ("--trusted-host pypi.lab.example", "--allow-insecure-host=pypi.lab.example"),
    ],
)
def test_pips_options_become_uvs(line: str, option: str) -> None:
    assert uv("fsspec", line)["uv_pip_install_options"] == ["--no-cache", option]
    assert uv("fsspec", line)["packages"] == ["fsspec"]


def test_with_several_indexes_the_best_version_of_all_wins_as_for_pip() -> None:
    assert uv("fsspec", "--extra-index-url https://pypi.lab.example/simple")["uv_pip_install_options"] == [
        "--no-cache",
        "--extra-index-url=https://pypi.lab.example/simple",
        "--index-strategy=unsafe-best-match",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "git+https://github.com/me/train@main",
        "train @ git+https://github.com/me/train",
        "https://files.pythonhosted.org/train-1.0-py3-none-any.whl",
        "train @ https://files.pythonhosted.org/train-1.0-py3-none-any.whl",
        "git+ssh://git@github.com/me/train",
        "train[fast]>=1,<2",
    ],
)
def test_what_the_nodes_can_fetch_travels(line: str) -> None:
    assert uv(line)["packages"] == [line]


@pytest.mark.parametrize(
    "line",
    [
        "./dist/train-1.0-py3-none-any.whl",
        "dist/train-1.0-py3-none-any.whl",
        "train-1.0.tar.gz",
        "../train",
        "/data/wheels/train.whl",
        "~/train.zip",
        "file:///data/train.whl",
        "train @ file:///data/train.whl",
        "-e .",
        "--editable=.",
        "-r requirements.txt",
        "--requirement=requirements.txt",
        "-c limits.txt",
        "-f ./wheels",
        "--find-links=/data/wheels",
    ],
)
def test_what_is_on_this_machine_alone_is_refused_by_its_place(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        runtime_env(["fsspec", line])
    assert caught.value.message.startswith(f"dependencies[1]: {line}: the ")
    assert "not on the Ray cluster" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("line", ["--index-url https://***@pypi.lab.example/simple", "git+https://***@lab.example/x"])
def test_a_password_does_not_travel_where_everybody_sees_it(line: str) -> None:
    with pytest.raises(ConfigError, match=r"dependencies\[0\].*the password") as caught:
        runtime_env([line, "fsspec"])
    assert "$NAME" in str(caught.value.hint)


def test_an_option_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigError, match="--hash"):
        runtime_env(["fsspec", "--hash=sha256:0"])


@pytest.mark.parametrize("line", ["ray[tune]>=2.9", "ray", "Ray==2.60.0", "ray @ https://files.pythonhosted.org/r.whl"])
def test_a_dependency_on_ray_stays_at_the_clusters_version(line: str) -> None:
    assert uv(line, ray="2.60.0")["packages"] == [line, "ray==2.60.0"]
    assert uv(line)["packages"] == [line]


@pytest.mark.parametrize("line", ["ray-lightning", "raydp>=1", "fsspec"])
def test_only_ray_itself_is_ray(line: str) -> None:
    assert uv(line, ray="2.60.0")["packages"] == [line]


def test_a_failure_is_told_in_uvs_words_alone() -> None:
    error = setup_failure(UNSATISFIABLE)
    assert error.message == (
        "the dependencies cannot be installed on the Ray cluster\n"
        "error: No solution found when resolving dependencies\n"
        "  cause: Because only numpy>=1.3.0 is available and you require numpy<1, we can conclude that your "
        "requirements are unsatisfiable."
    )
    assert "environment.dependencies" in str(error.hint)


def test_an_environment_without_an_installer_is_named() -> None:
    error = setup_failure(NO_INSTALLER)
    assert "neither uv nor pip" in error.message
    assert "install uv" in str(error.hint)


def test_another_ray_is_named() -> None:
    error = setup_failure(OTHER_RAY)
    assert "bring Ray 2.50.0" in error.message
    assert "ray==VERSION" in str(error.hint)


@pytest.mark.parametrize(("said", "last"), [("", "Ray does not say why"), ("one\n  two\n\n", "  two")])
def test_what_ray_says_in_another_form_is_told_by_its_last_line(said: str, last: str) -> None:
    assert setup_failure(said).message == f"the dependencies cannot be installed on the Ray cluster\n{last}"
