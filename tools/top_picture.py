"""Show a recording of `air top`, press keys, and keep the screen as an SVG.

air top --record seen.zst                                        (somewhere, for a while)
python tools/top_picture.py seen.zst docs/images/top.svg --size 110x30
python tools/top_picture.py seen.zst docs/images/top-node.svg --keys 3 down enter
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from airlane.top.app import TopApp
from airlane.top.recording import Replay

ROUND_S = 0.2


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path, help="the file of air top --record")
    parser.add_argument("file", type=Path, help="the SVG to write")
    parser.add_argument("--size", default="110x30", help="columns x lines")
    parser.add_argument("--keys", nargs="*", default=(), help="what is pressed, as Textual calls it")
    parser.add_argument("--speed", type=float, default=10.0, help="of the recording, which is played to its end")
    values = parser.parse_args(arguments)
    columns, lines = map(int, values.size.split("x"))
    values.file.write_text(asyncio.run(picture(values, (columns, lines))), encoding="utf-8")
    return 0


async def picture(values: argparse.Namespace, size: tuple[int, int]) -> str:
    replay = Replay(values.recording, speed=values.speed)
    app = TopApp(replay, clock=replay.clock)
    async with app.run_test(size=size) as pilot:
        before = None
        while replay.clock() != before:  # the clock stands where the recording ends
            before = replay.clock()
            app.take(await replay.snapshot())
            await pilot.pause(ROUND_S)
        for key in values.keys:
            await pilot.press(key)
            await pilot.pause(ROUND_S)
        await pilot.pause(ROUND_S)
        return without_fonts(app.export_screenshot(title=" "))


def without_fonts(svg: str) -> str:
    """Fonts from a server would not be loaded where pictures are shown, and would tell it who looks."""
    return re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
