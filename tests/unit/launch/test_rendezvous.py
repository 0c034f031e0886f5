from __future__ import annotations

from typing import Any

from airlane.launch.command import NOT_INHERITED, build_environment
from airlane.launch.rendezvous import node_variables, ray_tmpdir
from airlane.spec.runtime_variables import RUNTIME_VARIABLES

LONGEST_RUN_ID = "7k2m9q4d7k2m"


def variables(**changes: Any) -> dict[str, str]:
    plain: dict[str, Any] = {
        "run_id": "7k2m9q4d",
        "attempt": 1,
        "node": 1,
        "nodes": 2,
        "accelerators_per_node": 4,
        "master_addr": "10.0.0.1",
        "master_port": 20310,
        "devices": ("4", "5", "6", "7"),
        "code_source_path": "/runs/a b/code/my project",
        "checkpoint_dir": "/runs/a b/checkpoints",
        "path": "/usr/bin:/bin",
    }
    return node_variables(**{**plain, **changes})


def test_a_node_learns_who_it_is_and_where_the_others_are() -> None:
    assert variables() == {
        "AIR_ATTEMPT": "1",
        "AIR_CHECKPOINT_DIR": "/runs/a b/checkpoints",
        "AIR_RUN_ID": "7k2m9q4d",
        "CODE_SOURCE_PATH": "/runs/a b/code/my project",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "4,5,6,7",
        "LOCAL_WORLD_SIZE": "4",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "20310",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "NODE_RANK": "1",
        "NUM_NODES": "2",
        "PATH": "/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
        "RAY_TMPDIR": "/tmp/air-7k2m9q4d-1-1",
        "SPT_NOENV": "1",
        "WORLD_SIZE": "8",
    }


def test_tracking_environment_and_parameters_are_added_where_there_are_any() -> None:
    found = variables(
        bin_folder="/envs/k/bin",
        virtual_env="/envs/k",
        hyperparameters_path="/runs/p.yaml",
        tracking_uri="http://127.0.0.1:5000",
        mlflow_experiment_name="sft",
        mlflow_run_id="9f2",
    )
    assert found["PATH"] == "/envs/k/bin:/usr/bin:/bin"
    assert found["VIRTUAL_ENV"] == "/envs/k"
    assert found["HYPERPARAMETERS_PATH"] == "/runs/p.yaml"
    assert found["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:5000"
    assert found["MLFLOW_EXPERIMENT_NAME"] == "sft"
    assert found["MLFLOW_RUN_ID"] == "9f2"


def test_simulated_accelerators_hide_every_gpu() -> None:
    found = variables(devices=())
    assert found["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_DEVICE_ORDER" not in found


def test_uuids_need_no_device_order() -> None:
    assert "CUDA_DEVICE_ORDER" not in variables(devices=("GPU-1a", "GPU-2b"))


def test_the_users_variables_win_over_defaults_and_never_over_the_runtime() -> None:
    mine = {"PYTHONUNBUFFERED": "", "LR": "1e-5", **dict.fromkeys(RUNTIME_VARIABLES, "mine")}
    found = variables(env_variables=mine)
    assert found["PYTHONUNBUFFERED"] == ""
    assert found["LR"] == "1e-5"
    assert "mine" not in found.values()


def test_what_a_workload_may_not_set_is_what_a_node_sets() -> None:
    defaults = {
        "PYTHONUNBUFFERED", "SPT_NOENV", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "MLFLOW_DISABLE_TELEMETRY",
        "CUDA_DEVICE_ORDER",
    }  # fmt: skip
    everything = variables(
        bin_folder="b", virtual_env="v", hyperparameters_path="h", tracking_uri="t", mlflow_experiment_name="e",
        mlflow_run_id="r",
    )  # fmt: skip
    assert set(everything) - defaults == RUNTIME_VARIABLES


def test_rays_folder_leaves_room_for_its_sockets() -> None:
    assert len(ray_tmpdir(LONGEST_RUN_ID, attempt=99, node=1023)) + len("/ray") < 39


def test_nothing_of_an_outer_run_is_inherited() -> None:
    kept = {"PATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "MLFLOW_TRACKING_URI"}
    assert kept.isdisjoint(NOT_INHERITED)
    assert set(NOT_INHERITED) >= RUNTIME_VARIABLES - kept
    of_a_step = ("SLURM_PROCID", "SLURM_NTASKS_PER_NODE", "SLURM_STEP_ID")
    inherited = dict.fromkeys((*NOT_INHERITED, *of_a_step, "HOME"), "outer")
    assert build_environment(inherited, {"RANK": "0"}, {"TOKEN": "t"}) == {"HOME": "outer", "RANK": "0", "TOKEN": "t"}
