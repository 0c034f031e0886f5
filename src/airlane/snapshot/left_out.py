"""What stays out of a snapshot unless `include_paths` names it: environments, caches, and files with secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

GIT = b".git"
VENV_MARK = b"pyvenv.cfg"
_NAMES = frozenset({b".venv", b"__pycache__", b"node_modules", b".DS_Store"})
_ENV_SAMPLES = (b".example", b".sample", b".template", b".dist", b".defaults", b".schema")
_KEY_NAMES = frozenset({b"id_rsa", b"id_dsa", b"id_ecdsa", b"id_ed25519", b"id_ecdsa_sk", b"id_ed25519_sk"})
_KEY_SUFFIXES = (b".pem", b".key", b".ppk")
_KEY_MARKS = (b"PRIVATE KEY-----", b"PuTTY-User-Key-File")
KEY_HEAD_BYTES = 1 << 16


def left_out_by_name(name: bytes) -> bool:
    """Whether a file or folder of this name is an environment or a cache."""
    return name in _NAMES


def may_hold_secrets(name: bytes, read_head: Callable[[], bytes]) -> bool:
    """Whether a file is an .env file or a private key; `read_head` gives its first 64 KB, asked for key files only."""
    if name == b".env" or name.startswith(b".env."):
        return not name.endswith(_ENV_SAMPLES)
    if name in _KEY_NAMES:
        return True
    return name.endswith(_KEY_SUFFIXES) and any(mark in read_head() for mark in _KEY_MARKS)


def without_left_out(paths: Iterable[bytes]) -> list[bytes]:
    """The paths that do not lie in an environment or a cache."""
    paths = list(paths)
    environments = tuple(path.removesuffix(VENV_MARK) for path in paths if path.endswith(b"/" + VENV_MARK))
    return [
        path
        for path in paths
        if not path.startswith(environments) and not any(left_out_by_name(part) for part in path.split(b"/"))
    ]
