"""The variables a node's command finds: who it is, where the others are, and what is its share. Pure."""

from __future__ import annotations

import os
from typing import Dict, Mapping, Optional, Sequence

# A workload may set these itself.
_DEFAULTS = {
    "PYTHONUNBUFFERED": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # Its thread changes the environment while a request reads it: seen to fail a metric with a KeyError (MLflow 3.17).
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # setproctitle (Ray's workers use it) would overwrite the environment by which a sweep knows a process.
    "SPT_NOENV": "1",
}


def ray_tmpdir(run_id: str, *, attempt: int, node: int) -> str:
    """Ray's temporary folder on a node: absolute, and short, because unix socket paths below it end at 107 bytes."""
    return f"/tmp/air-{run_id}-{attempt}-{node}"  # noqa: S108 - made 0700 by the agent, which refuses another user's


def node_variables(
    *,
    run_id: str,
    attempt: int,
    node: int,
    nodes: int,
    accelerators_per_node: int,
    master_addr: str,
    master_port: int,
    devices: Sequence[str],
    code_source_path: str,
    checkpoint_dir: str,
    path: str,
    bin_folder: Optional[str] = None,
    virtual_env: Optional[str] = None,
    hyperparameters_path: Optional[str] = None,
    tracking_uri: Optional[str] = None,
    mlflow_experiment_name: Optional[str] = None,
    mlflow_run_id: Optional[str] = None,
    env_variables: Optional[Mapping[str, str]] = None,
) -> Dict[str, str]:
    """What is added to the environment of one node's command.

    `devices` are indexes or UUIDs, none where accelerators are simulated or cores: then no GPU is visible. `path` is
    the PATH that the environment's `bin_folder` is put before. What the user sets wins over our defaults, never over
    what the runtime owns; what is None is not set.
    """
    owned = {
        "AIR_RUN_ID": run_id,
        "AIR_ATTEMPT": str(attempt),
        "AIR_CHECKPOINT_DIR": checkpoint_dir,
        "CODE_SOURCE_PATH": code_source_path,
        "MASTER_ADDR": master_addr,
        "MASTER_PORT": str(master_port),
        "NUM_NODES": str(nodes),
        "NODE_RANK": str(node),
        "WORLD_SIZE": str(nodes * accelerators_per_node),
        "LOCAL_WORLD_SIZE": str(accelerators_per_node),
        "CUDA_VISIBLE_DEVICES": ",".join(devices),
        "RAY_TMPDIR": ray_tmpdir(run_id, attempt=attempt, node=node),
        "PATH": f"{bin_folder}{os.pathsep}{path}" if bin_folder else path,
        "VIRTUAL_ENV": virtual_env,
        "HYPERPARAMETERS_PATH": hyperparameters_path,
        "MLFLOW_TRACKING_URI": tracking_uri,
        "MLFLOW_EXPERIMENT_NAME": mlflow_experiment_name,
        "MLFLOW_RUN_ID": mlflow_run_id,
    }
    given = {name: value for name, value in owned.items() if value is not None}
    users = {name: value for name, value in (env_variables or {}).items() if name not in owned}
    return {**_DEFAULTS, **_device_order(devices), **users, **given}


def _device_order(devices: Sequence[str]) -> Dict[str, str]:
    """Indexes are the driver's, which counts by PCI bus; CUDA's own order is fastest first."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if any(device.isdigit() for device in devices) else {}
