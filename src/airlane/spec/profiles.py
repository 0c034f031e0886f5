"""The configuration file: named profiles that say where runs happen."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from airlane.errors import ConfigError
from airlane.frozen import frozen
from airlane.launch.container_argv import RUNTIMES
from airlane.launch.network import PRESETS
from airlane.spec.suggest import did_you_mean

BUILT_IN = "local"
NO_TRACKING = "none"
NO_CONTAINERS = "none"
STOP_GRACE_S = 30.0
STRAGGLER_GRACE_S = 300.0


@frozen
class Profile:
    """Where runs happen, and how.

    `tracking_uri` is None where Airlane starts its own MLflow server, and NO_TRACKING where there is none. `secrets`
    maps "scope/key" to the caller's environment variable that holds the value. `container` is the runtime of images,
    NO_CONTAINERS where there is none, and None for the first that a node has. `options` are the backend's own keys.
    """

    name: str
    backend: str = "local"
    home: Path | None = None
    tracking_uri: str | None = None
    stop_grace_s: float = STOP_GRACE_S
    straggler_grace_s: float = STRAGGLER_GRACE_S
    network: str | None = None
    container: str | None = None
    mounts: tuple[str, ...] = ()
    container_args: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    file: Path | None = None


def config_file(env: Mapping[str, str]) -> Path:
    """Where profiles are: $AIR_CONFIG, or air/config.toml in $XDG_CONFIG_HOME (~/.config)."""
    if env.get("AIR_CONFIG"):
        return _expanded(env["AIR_CONFIG"])
    return _expanded(env.get("XDG_CONFIG_HOME") or "~/.config") / "air" / "config.toml"


def _expanded(path: str) -> Path:
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for users it does not know


def load_profile(name: str | None = None, env: Mapping[str, str] | None = None) -> Profile:
    """The profile of that name; without one, that of $AIR_PROFILE, then the file's `default`, then "local".

    Raises:
        ConfigError: there is no such profile, or the file is wrong.
    """
    environ = os.environ if env is None else env
    profiles, default = load_profiles(environ)
    wanted = name or environ.get("AIR_PROFILE") or default
    if wanted not in profiles:
        file = config_file(environ)
        near = did_you_mean(wanted, profiles)
        there_are = f"There {'is' if len(profiles) == 1 else 'are'} {', '.join(profiles)}."
        raise ConfigError(
            f"no profile {wanted!r} in {file}" + ("" if file.exists() else " (no such file)"),
            hint=f"{near} {there_are}" if near else there_are,
        )
    return profiles[wanted]


def load_profiles(env: Mapping[str, str]) -> tuple[dict[str, Profile], str]:
    """Every profile by name, the built-in one included, and the name of the default.

    Raises:
        ConfigError: the file is wrong, or $AIR_CONFIG names one that does not exist.
    """
    file = config_file(env)
    table = _read(file, required=bool(env.get("AIR_CONFIG")))
    for key in table:
        if key not in ("default", "profiles"):
            raise _unknown_key(key, ["default", "profiles"], file)
    default = table.get("default", BUILT_IN)
    sections = table.get("profiles", {})
    if not isinstance(default, str):
        raise ConfigError(f"{file}: default: expected a profile's name, got {default!r}")
    if not isinstance(sections, dict):
        raise ConfigError(f"{file}: profiles: expected tables, got {sections!r}", hint="write [profiles.NAME]")
    profiles = {BUILT_IN: Profile(BUILT_IN)}
    for name, section in sections.items():
        profiles[name] = _profile(name, section, file)
    return profiles, default


def _read(file: Path, *, required: bool) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if required:
            raise ConfigError(f"$AIR_CONFIG names {file}, and there is no such file") from error
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text") from error
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from error


def _profile(name: str, section: Any, file: Path) -> Profile:
    if not isinstance(section, dict):
        raise ConfigError(
            f"{file}: profiles.{name}: expected a table, got {section!r}", hint=f"write [profiles.{name}]"
        )
    values = {
        key: _READERS[key](value, f"{file}: profiles.{name}.{key}") for key, value in section.items() if key in _READERS
    }
    options = {key: value for key, value in section.items() if key not in _READERS}
    return Profile(name=name, options=options, file=file, **values)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: expected text, got {value!r}")
    return value


def _folder(value: Any, where: str) -> Path:
    path = _expanded(_text(value, where))
    if not path.is_absolute():
        raise ConfigError(f"{where}: expected an absolute path, got {value!r}")
    return path


def _tracking_uri(value: Any, where: str) -> str:
    uri = _text(value, where)
    if uri != NO_TRACKING and not re.match("https?://", uri):
        raise ConfigError(f'{where}: expected an http:// or https:// address, or "none", got {uri!r}')
    return uri.rstrip("/")


def _seconds(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ConfigError(f"{where}: expected seconds, 0 or more, got {value!r}")
    return float(value)


def _network(value: Any, where: str) -> str:
    if value not in PRESETS:
        near = did_you_mean(value, PRESETS) if isinstance(value, str) else None
        raise ConfigError(f"{where}: expected one of {', '.join(PRESETS)}, got {value!r}", hint=near)
    return str(value)


def _container(value: Any, where: str) -> str:
    known = (*RUNTIMES, NO_CONTAINERS)
    if value not in known:
        near = did_you_mean(value, known) if isinstance(value, str) else None
        raise ConfigError(f"{where}: expected one of {', '.join(known)}, got {value!r}", hint=near)
    return str(value)


def _mounts(value: Any, where: str) -> tuple[str, ...]:
    mounts = _texts(value, where)
    for mount in mounts:
        if not re.fullmatch("/[^:]*(:/[^:]*)?(:r[ow])?", mount):
            raise ConfigError(
                f"{where}: expected /FOLDER, /FOLDER:/INSIDE or /FOLDER:/INSIDE:ro, got {mount!r}",
                hint='for example mounts = ["/data:/data:ro"]',
            )
    return tuple(_with_target(mount) for mount in mounts)


def _with_target(mount: str) -> str:
    """Both ends of a mount: "/data:ro" is "/data:/data:ro"."""
    source, *rest = mount.split(":")
    return mount if rest and rest[0].startswith("/") else ":".join([source, source, *rest])


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{where}: expected a list of texts, got {value!r}")
    return tuple(value)


def _secrets(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(
            f"{where}: expected a table, got {value!r}", hint='write secrets = { "scope/key" = "VARIABLE" }'
        )
    for ref, variable in value.items():
        if not re.fullmatch("[^/]+/[^/]+", ref):
            raise ConfigError(f"{where}: expected scope/key, got {ref!r}", hint='write it in quotes: "scope/key"')
        if not isinstance(variable, str) or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", variable):
            raise ConfigError(f"{where}.{ref}: expected the name of an environment variable")
    return value


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "backend": _text,
    "home": _folder,
    "tracking_uri": _tracking_uri,
    "stop_grace_s": _seconds,
    "straggler_grace_s": _seconds,
    "network": _network,
    "container": _container,
    "mounts": _mounts,
    "container_args": _texts,
    "secrets": _secrets,
}


def _unknown_key(key: str, known: list[str], file: Path) -> ConfigError:
    hint = did_you_mean(key, known) or f"The keys here are {', '.join(sorted(known))}."
    return ConfigError(f"{file}: {key}: unknown key", hint=hint)
