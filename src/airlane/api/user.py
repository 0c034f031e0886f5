"""Who submits."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping


def user_name(env: Mapping[str, str]) -> str:
    """Who submits: the login name, or the number where there is none (as in containers)."""
    try:
        return env.get("USER") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
