"""The backends by name. One line each; a backend is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from airlane.backends.base import Backend
from airlane.errors import ConfigError
from airlane.store.paths import Home

BACKENDS: dict[str, str] = {
    "local": "airlane.backends.local:LocalBackend",
    "ray": "airlane.backends.ray.backend:RayBackend",
    "slurm": "airlane.backends.slurm.backend:SlurmBackend",
}


def make_backend(name: str, home: Home, options: Mapping[str, Any]) -> Backend:
    """The backend of a profile.

    Raises:
        ConfigError: there is no such backend, or an option is wrong.
    """
    if name not in BACKENDS:
        raise ConfigError(f"there is no backend {name!r}", hint=f"backends: {', '.join(BACKENDS)}")
    module, _, attribute = BACKENDS[name].partition(":")
    return cast("Backend", getattr(import_module(module), attribute)(home, options))
