"""`python -m recipes.megatron`, in one process."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from recipes.megatron.command import configured, main, printed
from recipes.megatron.config import contradictions

from airlane.spec.load import load

from .conftest import ROOT
from .megatron_stand_in import StandIn

GUIDE = ROOT / "docs" / "guides" / "megatron.md"
WORKLOAD = ROOT / "recipes" / "megatron" / "train.yaml"
ALL_SETTINGS = (
    "Every setting: python -m recipes.megatron deepseek_v2_lite --print-config\n"
    "Those of Megatron Bridge that are not among them: bridge.SECTION.SETTING=VALUE\n"
)
MY_RECIPE = """
from recipes.megatron.config import Config, Model, Train

def configure(*, hf_path: str, layers_on: int | None = None, share: str = "50 %", deep: bool = False) -> Config:
    return Config(model=Model(hf_path, recompute_num_layers=layers_on), train=Train(5 if deep else 2, 4))
"""


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A package of the user's, as yet empty, where Python finds it."""
    for name in [name for name in sys.modules if name.split(".")[0] == "mine"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def be_rank(rank: int, world_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(world_size))


def test_the_configuration_is_printed_without_torch_or_megatron_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "recipes.megatron", "deepseek_v2_lite", "--print-config"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "model.tensor_model_parallel_size=8" in done.stdout.splitlines()
    assert "optimizer.lr=0.0003" in done.stdout.splitlines()
    assert set(re.findall(r"\| +(\w+)$", done.stderr, re.MULTILINE)) & {"torch", "megatron", "ray", "airlane"} == set()


def test_printed_words_make_the_same_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--hf-path", "/a 'model'", "checkpoint.save=/b c", "bridge.logger.runtime_time_unit=long hours"]
    assert main(["deepseek_v2_lite", *given, "--print-config"]) == 0
    words = shlex.split(capsys.readouterr().out)
    assert "model.hf_path=/a 'model'" in words
    assert "checkpoint.save=/b c" in words
    assert "bridge.logger.runtime_time_unit=long hours" in words
    again, _ = configured("deepseek_v2_lite", words)
    assert printed(again) == words


def test_flags_and_settings_may_be_mixed() -> None:
    words = ["train.train_iters=9", "--hf-path", "/m", "train.eval_iters=0", "--print-config", "rng.seed=1"]
    config, print_config = configured("deepseek_v2_lite", words)
    assert (config.train.train_iters, config.train.eval_iters, config.rng.seed) == (9, 0, 1)
    assert (config.model.hf_path, print_config) == ("/m", True)


def test_only_rank_0_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    be_rank(1, 16, monkeypatch)
    assert main(["deepseek_v2_lite", "--print-config"]) == 0
    assert capsys.readouterr().out == ""
    be_rank(0, 16, monkeypatch)
    assert main(["deepseek_v2_lite", "--print-config"]) == 0
    assert capsys.readouterr().out.startswith("model.hf_path=deepseek-ai/DeepSeek-V2-Lite\n")


def test_wrong_settings_are_refused_with_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["deepseek_v2_lite", "train.train_iter=9", "bridge.train.train_iters=5", "bridge.x"]
    assert main(words) == 2
    assert capsys.readouterr().err == (
        "bridge.train.train_iters=5: the recipe has this setting itself: train.train_iters\n"
        "train.train_iter=9: no such setting. Did you mean train.train_iters?\n"
        f"bridge.x: is no NAME=VALUE\n{ALL_SETTINGS}"
    )


def test_a_process_that_is_no_rank_says_how_ranks_are_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "16")  # as on every node of a workload, before ranks are started
    assert main(["deepseek_v2_lite"]) == 2
    assert capsys.readouterr().err == (
        "This process is no rank of a training: RANK is not set\n"
        "Start it with: air-ranks -m recipes.megatron deepseek_v2_lite\n"
    )


def test_ranks_that_do_not_fit_are_refused_before_megatron_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    be_rank(3, 8, monkeypatch)
    assert main(["deepseek_v2_lite"]) == 2
    assert capsys.readouterr().err.startswith("These are 8 ranks; the settings of model need 16")


@pytest.mark.usefixtures("no_megatron")
def test_a_rank_without_megatron_bridge_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    be_rank(0, 16, monkeypatch)
    assert main(["deepseek_v2_lite"]) == 2
    assert capsys.readouterr().err.startswith("Megatron Bridge is not installed in ")


def test_a_rank_trains_with_a_stand_in_for_megatron_bridge(monkeypatch: pytest.MonkeyPatch, megatron: StandIn) -> None:
    be_rank(0, 16, monkeypatch)
    assert main(["deepseek_v2_lite", "train.train_iters=60", "bridge.ddp.overlap_grad_reduce=false"]) == 0
    [(container, _)] = megatron.trained
    assert (container.train.train_iters, container.ddp.overlap_grad_reduce) == (60, False)


def test_a_recipe_of_the_users_own_has_its_own_flags(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (mine / "small.py").write_text(MY_RECIPE, encoding="utf-8")
    config, _ = configured("mine.small", ["--hf-path", "/m", "--layers-on", "3", "--deep", "true"])
    assert (config.model.recompute_num_layers, config.train.train_iters) == (3, 5)
    with pytest.raises(SystemExit):
        configured("mine.small", [])
    assert "the following arguments are required: --hf-path" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        configured("mine.small", ["--help"])
    assert "default: 50 %" in capsys.readouterr().out
    assert main(["mine.small", "--hf-path", "/m", "--layers-on", "some", "--deep", "very"]) == 2
    assert capsys.readouterr().err == (
        "--layers-on some: takes a whole number, such as 8, or none\n--deep very: takes true or false\n"
    )


def test_a_recipe_that_cannot_be_found_is_told_apart_from_one_that_is_broken(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (mine / "empty.py").touch()
    (mine / "broken.py").write_text("import a_missing_package\n", encoding="utf-8")
    assert main(["deepseek_v2_light"]) == 2
    assert main(["mine.smal"]) == 2
    assert main(["mine.empty"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "deepseek_v2_light: no such recipe. Did you mean deepseek_v2_lite?"
    assert said[2:4] == ["mine.smal: there is no module mine.smal", "It is looked for in PYTHONPATH."]
    assert said[4].endswith("empty.py has no function configure")
    with pytest.raises(ModuleNotFoundError, match="a_missing_package"):
        main(["mine.broken"])


def test_the_recipe_comes_first_and_help_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--print-config", "deepseek_v2_lite"]) == 2
    assert capsys.readouterr().err.startswith("The name of a recipe has to come first\nair-ranks -m recipes.megatron")
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "RECIPE is deepseek_v2_lite" in capsys.readouterr().out


def test_the_workload_loads_and_takes_the_folder_that_holds_the_recipes() -> None:
    workload = load(WORKLOAD).workload
    assert workload.code_source is not None
    assert (WORKLOAD.parent / workload.code_source.root_path).resolve() == ROOT
    assert workload.compute.num_accelerators == 16


@pytest.mark.parametrize("file", [GUIDE, WORKLOAD], ids=lambda file: file.name)
def test_commands_that_are_shown_are_understood_with_the_recipe_of_the_guide(file: Path, mine: Path) -> None:
    [program] = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (mine / "small.py").write_text(program, encoding="utf-8")
    text = file.read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"^ *(?:command: )?(?:air-ranks|python) -m recipes\.megatron (\w.*)$", text, re.MULTILINE)
    assert commands
    for command in commands:
        name, *words = shlex.split(command, comments=True)
        config, _ = configured(name, words)
        assert list(contradictions(config)) == []
