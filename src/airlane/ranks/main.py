"""The command `air-ranks`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile

from airlane.errors import EXIT_PIPE_CLOSED, AirError
from airlane.ranks import options
from airlane.ranks.screen import ReaderGoneError, Screen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from airlane.ranks.following import Asked
    from airlane.ranks.launcher import Launcher
    from airlane.ranks.settings import Settings

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(words: list[str] | None = None) -> int:
    """Returns the exit code: that of the first rank that failed, 124 for a hang, 128 + n for a signal, 1, 2 or 0."""
    screen = Screen(1, os.dup(2), ascii_only=not _shows_unicode())  # stderr itself is Ray's while it connects
    try:
        settings, unused = options.read(sys.argv[1:] if words is None else words, os.environ)
        if unused:
            screen.say(f"! not needed here, and not used: {', '.join(unused)}")
        return launch(settings, screen)
    except ReaderGoneError:
        return EXIT_PIPE_CLOSED
    except AirError as error:
        tell(screen, error)
        return error.exit_code


def tell(screen: Screen, error: AirError) -> None:
    screen.say(f"✗ {error.message}", *([f"  {error.hint}"] if error.hint else []))


def launch(settings: Settings, screen: Screen) -> int:
    """Raises AirError."""
    from airlane.ranks import door
    from airlane.ranks.following import Asked
    from airlane.ranks.launcher import Launcher

    def denied(error: AirError) -> None:
        tell(screen, error)
        os._exit(error.exit_code)  # nothing has been taken of the cluster, and Ray would go on trying

    asked = Asked()
    with apart_from_ray(), heard(asked):
        cluster = door.connect(os.environ, working_dir=settings.working_dir, denied=denied)
        listen(asked)  # once more: Ray has set its own
        launcher = Launcher(cluster, settings, screen, python=sys.executable, asked=asked)
        try:
            code = run(launcher, screen)
        finally:
            launcher.close()
        if not cluster.close():
            os._exit(code)  # Ray's own end would wait for a head that is not there
        return code


def run(launcher: Launcher, screen: Screen) -> int:
    """The exit code of a launch."""
    try:
        return launcher.run().code
    except ReaderGoneError:
        return EXIT_PIPE_CLOSED
    except AirError as error:
        tell(screen, error)
        return error.exit_code


@contextlib.contextmanager
def heard(asked: Asked) -> Iterator[None]:
    """Requests to stop are noted, and obeyed by who looks at `asked`."""
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    listen(asked)
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def listen(asked: Asked) -> None:
    for number in _STOP_SIGNALS:
        signal.signal(number, lambda number, _: asked.hear(number))


@contextlib.contextmanager
def apart_from_ray() -> Iterator[None]:
    """What Ray's own threads print goes to a file that is thrown away: the screen is for the ranks and for us."""
    with (
        tempfile.TemporaryFile("w", encoding="utf-8", errors="replace") as chatter,
        contextlib.redirect_stdout(chatter),
        contextlib.redirect_stderr(chatter),
    ):
        yield


def _shows_unicode() -> bool:
    try:
        "✓✗".encode(sys.stderr.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
