"""What a seat's keeper is told to do: one JSON line. Used on the nodes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

CALL_FILE = "call.pickle"
RESULT_FILE = "result.pickle"
# Stands in argv for the folder that the kit was unpacked into, and for the Python of the ranks.
KIT, PYTHON = "\0kit", "\0python"


@dataclass(frozen=True)
class Order:
    """Run `argv` once.

    `sent` is what the launcher's environment gives, `own` what it sets. `script` is the file that must be there, None
    where nothing can be known. `shipped` is the folder whose copy the seat's working folder is, None where nothing was
    shipped. `mark` is the value of MARK by which what is left of the rank is known.
    """

    argv: tuple[str, ...]
    folder: str
    python: str
    mark: str
    script: str | None = None
    shipped: str | None = None
    sent: dict[str, str] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Order:
        fields = json.loads(text)
        return Order(**{**fields, "argv": tuple(fields["argv"])})
