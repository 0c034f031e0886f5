"""The local secret store: one private file a secret, `secrets/<scope>/<key>` under the home folder."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from airlane.errors import ArgumentError, NotFoundError, SecretError
from airlane.store.disk import SystemDisk
from airlane.store.paths import Home

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_LONGEST_FILE_NAME = 200


def set_secret(home: Home, ref: str, value: str) -> None:
    """Store a value under "scope/key", replacing an older one.

    Raises:
        ArgumentError: `ref` is not scope/key, or the value is empty.
        SecretError: the store cannot be written, or others can read it.
    """
    path = _path(home, ref)
    if not value:
        raise ArgumentError(f"The value for {ref} is empty.", hint=f"air secrets set {ref} < FILE")
    try:
        home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (home.secrets, path.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
            _refuse_if_shared(folder)
        SystemDisk().replace(path, value.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise SecretError(f"Cannot write the secret {ref}: {error.strerror}: {path}") from error


def get_secret(home: Home, ref: str) -> str | None:
    """The value of "scope/key"; None where there is none.

    Raises:
        ArgumentError: `ref` is not scope/key.
        SecretError: it cannot be read, or others can read it.
    """
    path = _path(home, ref)
    try:
        _refuse_if_shared(path)
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SecretError(f"Cannot read the secret {ref}: {error.strerror}: {path}") from error


def delete_secret(home: Home, ref: str) -> None:
    """Forget "scope/key".

    Raises:
        NotFoundError: there is no such secret.
    """
    path = _path(home, ref)
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"There is no secret {ref}.", hint="air secrets list") from None
    except OSError as error:
        raise SecretError(f"Cannot delete the secret {ref}: {error.strerror}: {path}") from error
    with contextlib.suppress(OSError):  # the scope holds other secrets
        path.parent.rmdir()


def list_secrets(home: Home) -> tuple[str, ...]:
    """Every "scope/key", sorted; values are never read."""
    return tuple(sorted(f"{_unquote(scope.name)}/{_unquote(key.name)}" for scope, key in _files(home)))


def resolve(
    refs: Mapping[str, str], *, home: Home, profile_secrets: Mapping[str, str], env: Mapping[str, str]
) -> dict[str, str]:
    """The values for NAME -> "scope/key": from the profile's environment variable, else from the store.

    `profile_secrets` maps "scope/key" to the name of a variable of `env`.

    Raises:
        SecretError: some are missing (all of them are named), or the store is not private.
    """
    values: dict[str, str] = {}
    missing: list[tuple[str, str]] = []
    for name, ref in refs.items():
        variable = profile_secrets.get(ref)
        value = env.get(variable) if variable else None
        value = value or get_secret(home, ref)
        if value:
            values[name] = value
        else:
            missing.append((name, ref))
    if missing:
        raise _missing(missing, profile_secrets)
    return values


def strip_final_newline(text: str) -> str:
    """A value as typed or piped: the one newline that `echo` or an editor adds is not part of it."""
    return text.removesuffix("\n").removesuffix("\r")


def _missing(missing: list[tuple[str, str]], profile_secrets: Mapping[str, str]) -> SecretError:
    described = []
    for name, ref in missing:
        variable = profile_secrets.get(ref)
        described.append(f"{name} ({ref}{f', and ${variable} is not set' if variable else ''})")
    count = "A secret is" if len(missing) == 1 else f"{len(missing)} secrets are"
    commands = "\n".join(dict.fromkeys(f"air secrets set {ref}" for _, ref in missing))
    return SecretError(f"{count} missing: {', '.join(described)}.", hint=commands)


def _files(home: Home) -> Iterator[tuple[Path, Path]]:
    if not home.secrets.is_dir():
        return
    for scope in home.secrets.iterdir():
        if scope.is_dir():
            for key in scope.iterdir():
                if not key.name.startswith(".") and key.is_file():
                    yield scope, key


def _path(home: Home, ref: str) -> Path:
    scope, slash, key = ref.partition("/")
    if not (scope and slash and key) or "/" in key:
        raise ArgumentError(f"A secret is named scope/key; got {ref!r}.", hint="air secrets set hf/token")
    names = _quote(scope), _quote(key)
    if max(map(len, names)) > _LONGEST_FILE_NAME:
        raise ArgumentError(f"The name of the secret is too long: {ref[:40]}...", hint="air secrets set hf/token")
    return home.secrets.joinpath(*names)


def _quote(name: str) -> str:
    """A file name: other characters, and a dot in front, as %XX of their UTF-8 bytes."""
    quoted = "".join(
        c if c in _PLAIN else "".join(f"%{b:02X}" for b in c.encode("utf-8", "surrogateescape")) for c in name
    )
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def _unquote(name: str) -> str:
    head, *rest = name.encode("utf-8", "surrogateescape").split(b"%")
    return b"".join([head, *(bytes.fromhex(part[:2].decode()) + part[2:] for part in rest)]).decode(
        "utf-8", "surrogateescape"
    )


def _refuse_if_shared(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        private = "700" if path.is_dir() else "600"
        raise SecretError(
            f"Others can open {path} (mode {mode:o}; a secret needs {private}).", hint=f"chmod {private} '{path}'"
        )
