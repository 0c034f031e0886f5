"""Remote URLs without the credentials that people and CI systems put into them."""

from __future__ import annotations

import re

_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*)://[^\s'\"<>]+")
_SCHEMES_WHERE_USER_IS_ADDRESS = frozenset({"ssh", "git+ssh", "ssh+git"})


def without_credentials(url: str) -> str:
    """The URL without user, password, token, query and fragment; the user of an SSH address stays ("git@")."""
    helper, separator, address = url.partition("::")
    if separator and re.fullmatch(r"[A-Za-z0-9-]+", helper):
        return f"{helper}::{without_credentials(address)}"
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _scp_like(url)
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    if not user and "@" in path and re.search(r":(?!\d*$)", host):
        # A password with an unescaped slash: what looks like a port is its beginning.
        _, _, rest = rest.rpartition("@")
        return f"{scheme}://{rest}"
    if scheme.lower() in _SCHEMES_WHERE_USER_IS_ADDRESS and user:
        name = user.partition(":")[0]
        return f"{scheme}://{name}@{host}{slash}{path}"
    return f"{scheme}://{host}{slash}{path}"


def _scp_like(address: str) -> str:
    """`user:token@host:path` as `user@host:path`; a local path stays as it is."""
    user, separator, rest = address.partition("@")
    if not separator or "/" in user:
        return address
    return f"{user.partition(':')[0]}@{rest}"


def hide_credentials(text: str) -> str:
    """Text, such as Git's own message, with every URL in it stripped of credentials."""
    return _URL.sub(lambda found: without_credentials(found.group()), text)
