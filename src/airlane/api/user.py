"""Who submits."""

from __future__ import annotations

import os
from collections.abc import Mapping


def user_name(env: Mapping[str, str]) -> str:
    """Who submits: the login name, or the number where there is none (as in containers)."""
    try:
        if env.get("USER"):
            return env["USER"]
        import getpass

        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
