"""What Ray's own library writes to stderr while it connects: it knows more than the error that follows much later."""

from __future__ import annotations

import os
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

_STDERR = 2
_PATIENCE_S = 1.0


class Overheard:
    """Keeps what is written to stderr from the screen, in `text`. `heard` is called, in a thread, at a word."""

    def __init__(self, word: str, heard: Callable[[], None] | None = None) -> None:
        self._word = word
        self._heard = heard
        self.text = ""

    @property
    def has_word(self) -> bool:
        return self._word in self.text

    def __enter__(self) -> Self:
        self._screen = os.dup(_STDERR)
        self._source, writer = os.pipe()
        os.dup2(writer, _STDERR)
        os.close(writer)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def _listen(self) -> None:
        with os.fdopen(self._source, "rb", buffering=0) as source:
            while data := source.read(4096):
                self.text += data.decode(errors="replace")
                if self._heard is not None and self.has_word:
                    self._heard()

    def __exit__(self, *_: object) -> None:
        os.dup2(self._screen, _STDERR)
        os.close(self._screen)
        self._thread.join(_PATIENCE_S)
