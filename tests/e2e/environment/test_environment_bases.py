"""The bases we ship, built for real: needs the package index that this machine is configured for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airlane.environment import BuiltEnvironment, build, list_environments, pip_settings, plan
from airlane.store.paths import Home

pytestmark = pytest.mark.slow

# Found, not imported: an import of all of them compiles for a minute.
_FIND_AI5 = """
from importlib.util import find_spec
names = "accelerate datasets fsspec huggingface_hub mlflow peft ray.train sklearn transformers trl yaml".split()
print([name for name in names if find_spec(name) is None])
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("a home with spaces"))


def built(home: Home, base: str, *dependencies: str) -> BuiltEnvironment:
    told: list[str] = []
    environment = build(plan(base, dependencies, base_dir=Path("/"), home=home), progress=told.append)
    print(base, dependencies, f"{environment.duration_s:.1f} s" if environment.duration_s else "cached", told)
    return environment


def run(environment: BuiltEnvironment, code: str) -> str:
    variables = {**os.environ, **environment.variables()}
    command = [str(environment.python), "-c", code]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.strip()


def test_base_5_holds_what_recipes_assume_and_costs_a_stat_from_then_on(home: Home) -> None:
    environment = built(home, "5")
    run(environment, "import mlflow, numpy, pandas, pyarrow, yaml")
    started = time.perf_counter()
    assert built(home, "5").duration_s is None
    assert time.perf_counter() - started < 0.1


def test_a_second_environment_from_the_same_base_takes_its_files_from_the_cache(home: Home) -> None:
    built(home, "5")
    second = built(home, "5", "requests>=2")
    log = (second.folder / "build.log").read_text(encoding="utf-8")
    assert "Downloading" not in log
    assert len({info.key for info in list_environments(home)}) >= 2


def cpu_torch() -> bool:
    """Whether pip is configured with a folder that has a CPU build of torch for this Python."""
    links = pip_settings.read(os.environ, prefix=Path(sys.prefix)).find_links
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return any(list(Path(link).glob(f"torch-2.13.*+cpu-{tag}-*.whl")) for link in links if "://" not in link)


@pytest.mark.skipif(
    not cpu_torch(), reason="pip's find-links has no CPU build of torch here: this would fetch gigabytes"
)
def test_ai5_takes_the_cpu_torch_of_pips_find_links_and_no_cuda(home: Home) -> None:
    environment = built(home, "AI5", "fsspec>=2024.6.1")
    lock = (environment.folder / "requirements.lock").read_text(encoding="utf-8")
    assert "torch==2.13.0+cpu\n" in lock
    assert "nvidia" not in lock
    assert "ray==2.60.0\n" in lock
    assert run(environment, _FIND_AI5) == "[]"
    assert run(environment, "import torch; print(torch.cuda.is_available())") == "False"
    assert list(environment.folder.glob("lib/*/site-packages/torch/__pycache__/*.pyc"))


def test_pips_own_view_of_its_configuration_is_ours(tmp_path: Path) -> None:
    user = tmp_path / "user/.config/pip/pip.conf"
    user.parent.mkdir(parents=True)
    user.write_text(
        "[global]\nindex-url = https://user.example\nfind_links =\n  /a\n  /b\n[install]\ntimeout = 5\n",
        encoding="utf-8",
    )
    legacy = tmp_path / "user/.pip/pip.conf"
    legacy.parent.mkdir()
    legacy.write_text("[global]\nindex-url = https://legacy.example\nproxy = p:1\n", encoding="utf-8")
    shared = tmp_path / "shared/pip/pip.conf"
    shared.parent.mkdir(parents=True)
    shared.write_text("[global]\nproxy = shared:1\ntrusted-host = shared\n", encoding="utf-8")
    environ = {
        "HOME": str(tmp_path / "user"),
        "XDG_CONFIG_DIRS": str(tmp_path / "shared"),
        "PIP_EXTRA_INDEX_URL": "https://env.example",
    }
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if "No module named pip" in listed.stderr:
        pytest.skip("this Python has no pip to compare with")
    said = dict(line.partition("=")[::2] for line in listed.stdout.splitlines())
    ours = pip_settings.read(environ, prefix=Path(sys.prefix))
    assert said["global.index-url"].strip("'") == ours.index_url
    assert said["global.proxy"].strip("'") == ours.proxy
    assert said["global.trusted-host"].strip("'") == ours.trusted_hosts[0]
    assert said["install.timeout"].strip("'") == ours.timeout_s
    assert said[":env:.extra-index-url"].strip("'") == ours.extra_index_urls[0]
    assert ours.find_links == ("/a", "/b")
