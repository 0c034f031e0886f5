"""How the tones look: five sets of colours, and none."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style
from textual.theme import Theme

from airlane.top.lines import Tone


@dataclass(frozen=True)
class Colours:
    """One set of them, in hexadecimal."""

    name: str
    background: str
    foreground: str
    dim: str
    strong: str
    track: str
    good: str
    warn: str
    bad: str
    accent: str
    past: str
    cursor: str
    away: str
    on_cursor: str | None = None
    dark: bool = True


THEMES = (
    Colours(
        name="dark",
        background="#11151a",
        foreground="#cdd5de",
        dim="#7f8b99",
        strong="#f2f5f8",
        track="#3a444f",
        good="#7fbf8a",
        warn="#e3b55c",
        bad="#ec7a7f",
        accent="#6fb3e8",
        past="#41698a",
        cursor="#24384d",
        away="#1a242e",
    ),
    Colours(
        name="light",
        background="#fbfbf9",
        foreground="#2c323a",
        dim="#69727d",
        strong="#0d1117",
        track="#cfd5db",
        good="#2b7a3d",
        warn="#8f5d00",
        bad="#bf2630",
        accent="#0a5fb8",
        past="#8db4dc",
        cursor="#d5e5f6",
        away="#ebeff3",
        dark=False,
    ),
    Colours(
        name="Dracula",
        background="#282a36",
        foreground="#f1f1ec",
        dim="#979fc4",
        strong="#ffffff",
        track="#4b4f66",
        good="#50fa7b",
        warn="#ffb86c",
        bad="#ff7878",
        accent="#bd93f9",
        past="#7a66a8",
        cursor="#44475a",
        away="#343746",
    ),
    Colours(
        name="Nord",
        background="#2e3440",
        foreground="#d8dee9",
        dim="#949fb3",
        strong="#eceff4",
        track="#4c566a",
        good="#a3be8c",
        warn="#ebcb8b",
        bad="#dc8188",
        accent="#88c0d0",
        past="#5f8694",
        cursor="#434f64",
        away="#383f4d",
    ),
    Colours(
        name="high contrast",
        background="#000000",
        foreground="#ffffff",
        dim="#d0d0d0",
        strong="#ffffff",
        track="#7a7a7a",
        good="#00ff5f",
        warn="#ffd75f",
        bad="#ff8787",
        accent="#5fd7ff",
        past="#3f9fbf",
        cursor="#ffffff",
        away="#4a4a4a",
        on_cursor="#000000",
    ),
)
NAMES = tuple(colours.name for colours in THEMES)
_BY_NAME = {colours.name: colours for colours in THEMES}
_BOLD = (Tone.TITLE, Tone.STRONG)


def textual_themes() -> list[Theme]:
    return [
        Theme(
            name=colours.name,
            primary=colours.accent,
            accent=colours.accent,
            success=colours.good,
            warning=colours.warn,
            error=colours.bad,
            foreground=colours.foreground,
            background=colours.background,
            surface=colours.away,
            panel=colours.track,
            dark=colours.dark,
        )
        for colours in THEMES
    ]


class Palette:
    """The style of each tone, on the screen and on the chosen line of a list."""

    def __init__(self, name: str, *, colour: bool = True) -> None:
        colours = _BY_NAME[name]
        self._styles = {tone: _style(tone, colours) if colour else _plain(tone) for tone in Tone}
        chosen = Style(bgcolor=colours.cursor) if colour else Style(reverse=True)
        away = Style(bgcolor=colours.away) if colour else Style(underline=True)
        on_cursor = Style(color=colours.on_cursor) if colour and colours.on_cursor else Style()
        self._chosen = {tone: style + chosen + on_cursor for tone, style in self._styles.items()}
        box = Style(bgcolor=colours.away) if colour else Style()
        self._boxed = {tone: style + box for tone, style in self._styles.items()}
        self._kept = {tone: style + away for tone, style in self._styles.items()}

    def __getitem__(self, tone: Tone) -> Style:
        return self._styles[tone]

    def boxed(self, tone: Tone) -> Style:
        """In a box that lies above a screen."""
        return self._boxed[tone]

    def chosen(self, tone: Tone) -> Style:
        """On the line of the cursor."""
        return self._chosen[tone]

    def kept(self, tone: Tone) -> Style:
        """On the line of the cursor of a list that keys do not go to."""
        return self._kept[tone]


def _style(tone: Tone, colours: Colours) -> Style:
    colour = {
        Tone.PLAIN: colours.foreground,
        Tone.DIM: colours.dim,
        Tone.STRONG: colours.strong,
        Tone.TITLE: colours.accent,
        Tone.ACCENT: colours.accent,
        Tone.GOOD: colours.good,
        Tone.WARN: colours.warn,
        Tone.BAD: colours.bad,
        Tone.TRACK: colours.track,
        Tone.PAST: colours.past,
        Tone.CHOSEN: colours.background,
    }[tone]
    background = colours.accent if tone is Tone.CHOSEN else colours.background
    return Style(color=colour, bgcolor=background, bold=tone in _BOLD or None)


def _plain(tone: Tone) -> Style:
    """Without colours: only as bold, dim or reversed."""
    return Style(
        bold=tone in (*_BOLD, Tone.BAD, Tone.WARN) or None,
        dim=tone in (Tone.DIM, Tone.TRACK) or None,
        reverse=tone is Tone.CHOSEN or None,
    )
