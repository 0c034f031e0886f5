"""The environment variables that the runtime owns: a workload may not set them."""

from __future__ import annotations

RUNTIME_VARIABLES: frozenset[str] = frozenset(
    {
        "AIR_ATTEMPT",
        "AIR_CHECKPOINT_DIR",
        "AIR_RUN_ID",
        "CODE_SOURCE_PATH",
        "CUDA_VISIBLE_DEVICES",
        "HYPERPARAMETERS_PATH",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "MLFLOW_EXPERIMENT_NAME",
        "MLFLOW_RUN_ID",
        "MLFLOW_TRACKING_URI",
        "NODE_RANK",
        "NUM_NODES",
        "PATH",
        "RAY_TMPDIR",
        "VIRTUAL_ENV",
        "WORLD_SIZE",
    }
)
"""PATH belongs here because a PATH from the file would hide the environment's own python.

PYTHONUNBUFFERED is set, too, but a workload may override it; RANK and LOCAL_RANK are left to the launcher.
"""

INSTEAD: dict[str, str] = {
    "AIR_CHECKPOINT_DIR": "read it in the command; it is the same folder in every attempt",
    "CUDA_VISIBLE_DEVICES": "ask for fewer accelerators, or set it inside the command",
    "HYPERPARAMETERS_PATH": "put the values under `parameters`",
    "MLFLOW_EXPERIMENT_NAME": "`experiment_name` sets it",
    "MLFLOW_TRACKING_URI": "set `tracking_uri` in the profile, or MLFLOW_TRACKING_URI where you type `air`",
    "PATH": 'extend it inside the command: export PATH="/my/bin:$PATH"',
    "VIRTUAL_ENV": "`environment` decides which Python runs",
}
"""What to do instead, for the names people are most likely to try."""
