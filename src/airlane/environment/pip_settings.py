"""What pip is configured to do on this machine, said in the environment variables that uv reads.

uv does not read pip's configuration, so a user behind a company index, or with wheels on disk, would get nothing.
Standard library only and no import of airlane: tools/uv_settings.py runs this file before anything is installed.
"""

from __future__ import annotations

import configparser
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_UV_INDEX_KEYS = ("index", "index-url", "extra-index-url", "find-links", "no-index")


@dataclass(frozen=True, slots=True)
class PipSettings:
    """The part of pip's configuration that decides what an installation finds. Empty means "not configured"."""

    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    cert: str = ""
    client_cert: str = ""
    proxy: str = ""
    timeout_s: str = ""
    no_index: bool = False
    pre: bool = False


def read(
    environ: Mapping[str, str], *, prefix: Path, system: str = sys.platform, root: Path = Path("/")
) -> PipSettings:
    """The settings `pip install` would use. `prefix` is the running Python's; `root` moves /etc for tests.

    Source: pip's documentation, "Configuration"; the order was compared with `pip config list`.
    """
    values: dict[str, str] = {}
    layers = [_read_file(path) for path in config_files(environ, prefix=prefix, system=system, root=root)]
    # pip merges its files first and then lets [install] beat [global], whichever file either stands in.
    for section in ("global", "install"):
        for layer in layers:
            values.update(layer.get(section, {}))
    for name, value in environ.items():
        if name.startswith("PIP_") and value:
            values[_setting_name(name.removeprefix("PIP_"))] = value
    return PipSettings(
        index_url=values.get("index-url", ""),
        extra_index_urls=tuple(values.get("extra-index-url", "").split()),
        find_links=tuple(_location(word) for word in values.get("find-links", "").split()),
        constraints=tuple(_location(word) for word in values.get("constraint", "").split()),
        trusted_hosts=tuple(values.get("trusted-host", "").split()),
        cert=_location(values.get("cert", "")),
        client_cert=_location(values.get("client-cert", "")),
        proxy=values.get("proxy", ""),
        timeout_s=values.get("timeout", values.get("default-timeout", "")),
        no_index=values.get("no-index", "").lower() in _TRUE,
        pre=values.get("pre", "").lower() in _TRUE,
    )


def config_files(environ: Mapping[str, str], *, prefix: Path, system: str, root: Path) -> tuple[Path, ...]:
    """The configuration files of pip, the weakest first; they need not exist."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return ()
    home = Path(environ.get("HOME") or Path.home())
    if system == "darwin":
        shared = [root / "Library/Application Support/pip/pip.conf"]
        library = home / "Library/Application Support/pip"
        user = library if library.is_dir() else home / ".config/pip"
    else:
        xdg = environ.get("XDG_CONFIG_DIRS") or str(root / "etc/xdg")
        shared = [Path(folder) / "pip/pip.conf" for folder in xdg.split(os.pathsep) if folder]
        shared.append(root / "etc/pip.conf")
        user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip"
    files = list(shared)
    if not (named and Path(named).exists()):
        files += [home / ".pip/pip.conf", user / "pip.conf"]
    # pip's third level is the pip.conf of its own virtual environment; a user thinks of the one that is active.
    files.append(Path(environ.get("VIRTUAL_ENV") or prefix) / "pip.conf")
    if named:
        files.append(Path(named))
    return tuple(files)


def uv_variables(pip: PipSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that make uv see what pip sees; what the user has told uv already is left alone.

    Not in them, because uv has no variable for it or none that survives a space in a path: `constraints`, `no_index`.
    """
    found: dict[str, str] = {}
    if not knows_indexes(environ):
        found.update(_index_variables(pip, environ))
    if pip.trusted_hosts and "UV_INSECURE_HOST" not in environ:
        found["UV_INSECURE_HOST"] = " ".join(pip.trusted_hosts)
    if pip.cert and not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & environ.keys():
        found["SSL_CERT_DIR" if Path(pip.cert).is_dir() else "SSL_CERT_FILE"] = pip.cert
    if pip.client_cert and "SSL_CLIENT_CERT" not in environ:
        found["SSL_CLIENT_CERT"] = pip.client_cert
    if pip.timeout_s and not {"UV_HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT", "HTTP_TIMEOUT"} & environ.keys():
        found["UV_HTTP_TIMEOUT"] = pip.timeout_s.partition(".")[0]
    if pip.proxy and not any(f"{scheme}_proxy" in map(str.lower, environ) for scheme in ("http", "https", "all")):
        found["HTTP_PROXY"] = found["HTTPS_PROXY"] = _proxy_url(pip.proxy)
    if pip.pre and "UV_PRERELEASE" not in environ:
        found["UV_PRERELEASE"] = "allow"
    return found


def knows_indexes(environ: Mapping[str, str]) -> bool:
    """Whether a uv.toml of the user's already says where packages come from: then pip's word does not count."""
    named = environ.get("UV_CONFIG_FILE")
    home = Path(environ.get("HOME") or Path.home())
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv/uv.toml"
    for path in [Path(named)] if named else [user, Path("/etc/uv/uv.toml")]:
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # uv itself says what is wrong with its file
        if any(key in table for table in (content, content.get("pip", {})) for key in _UV_INDEX_KEYS):
            return True
    return False


def _index_variables(pip: PipSettings, environ: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if pip.index_url and not {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & environ.keys():
        found["UV_DEFAULT_INDEX"] = pip.index_url
    if pip.extra_index_urls and not {"UV_INDEX", "UV_EXTRA_INDEX_URL"} & environ.keys():
        found["UV_INDEX"] = " ".join(pip.extra_index_urls)
        # uv stops at the first index that knows a package, pip takes the best version of all. The user configured
        # pip, with indexes that may each hold a package in part: do as pip does.
        if "UV_INDEX_STRATEGY" not in environ:
            found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    if pip.find_links and "UV_FIND_LINKS" not in environ:
        found["UV_FIND_LINKS"] = ",".join(pip.find_links)
    return found


def _read_file(path: Path) -> dict[str, dict[str, str]]:
    """The sections of one configuration file; a file that cannot be read counts as empty, as pip warns about it."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"), source=str(path))
    except (OSError, UnicodeDecodeError, configparser.Error):
        return {}
    return {
        section: {_setting_name(name): value for name, value in parser.items(section) if value}
        for section in parser.sections()
    }


def _setting_name(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def _location(word: str) -> str:
    """A path made absolute, because uv runs in another folder; a URL, or nothing, as it is."""
    return word if not word or "://" in word else str(Path(word).expanduser().absolute())


def _proxy_url(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"
