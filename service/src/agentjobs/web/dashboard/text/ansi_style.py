"""Applies ANSI "select graphic rendition" parameters to a style. Knows no HTML."""

import colorsys
from functools import lru_cache

import msgspec

_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_MAX_NUMBERS = 64
_WEIGHTS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
_WEIGHTS_OFF = {
    21: ("bold",),
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    27: ("inverse",),
    29: ("strike",),
}


class Style(msgspec.Struct, frozen=True):
    """Colours are ANSI indexes from 0 to 15."""

    foreground: int | None = None
    background: int | None = None
    weights: frozenset[str] = frozenset()

    @property
    def classes(self) -> str:
        return _classes(self)


PLAIN = Style()


@lru_cache(maxsize=1_024)
def apply_sgr(style: Style, numbers: str) -> Style:
    """The style after `ESC [ numbers m`; unknown numbers are ignored."""
    parts = numbers.split(";", _MAX_NUMBERS)[:_MAX_NUMBERS]
    at = 0
    while at < len(parts):
        number, *details = map(_number, parts[at].split(":", 8))
        at += 1
        if number not in {38, 48, 58}:
            style = _apply_number(style, number + 20 if details == [0] else number)
            continue
        colour, used = _extended_colour(details or [_number(part) for part in parts[at : at + 4]])
        at += 0 if details else used
        if number != 58 and colour is not None:
            style = _with_colour(style, "foreground" if number == 38 else "background", colour)
    return style


def _number(text: str) -> int:
    """0 for an empty parameter, -1 for an invalid one."""
    if not text:
        return 0
    return int(text) if len(text) <= 3 and text.isascii() and text.isdigit() else -1


def _apply_number(style: Style, number: int) -> Style:
    if number == 0:
        return PLAIN
    if number in _WEIGHTS:
        return msgspec.structs.replace(style, weights=style.weights | {_WEIGHTS[number]})
    if number in _WEIGHTS_OFF:
        return msgspec.structs.replace(style, weights=style.weights - {*_WEIGHTS_OFF[number]})
    for first, layer, bright in (
        (30, "foreground", 0),
        (40, "background", 0),
        (90, "foreground", 8),
        (100, "background", 8),
    ):
        if first <= number < first + 8:
            return _with_colour(style, layer, number - first + bright)
        if number == first + 9 and not bright:
            return _with_colour(style, layer, None)
    return style


def _with_colour(style: Style, layer: str, colour: int | None) -> Style:
    if layer == "foreground":
        return msgspec.structs.replace(style, foreground=colour)
    return msgspec.structs.replace(style, background=colour)


def _extended_colour(details: list[int]) -> tuple[int | None, int]:
    """The colour of `5;n` or `2;r;g;b`, and how many numbers it consumed."""
    match details:
        case [5, index, *_]:
            return (_from_256(index) if 0 <= index <= 255 else None), 2
        case [2, red, green, blue] | [2, _, red, green, blue, *_]:
            return _nearest(red, green, blue), 4
    return None, len(details)


def _from_256(index: int) -> int:
    if index < 16:
        return index
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return _nearest(grey, grey, grey)
    steps = (0, 95, 135, 175, 215, 255)
    red, green, blue = ((index - 16) // 36, (index - 16) // 6 % 6, (index - 16) % 6)
    return _nearest(steps[red], steps[green], steps[blue])


@lru_cache(maxsize=1_024)
def _nearest(red: int, green: int, blue: int) -> int:
    """Matches by hue instead of distance, so that a pale red is red rather than grey."""
    channels = [min(max(channel, 0), 255) / 255 for channel in (red, green, blue)]
    hue, saturation, value = colorsys.rgb_to_hsv(*channels)
    if saturation < 0.2 or value < 0.15:
        return (0, 8, 7, 15)[min(int(value * 4), 3)]
    # Sixths of the colour circle: red, yellow, green, cyan, blue, magenta.
    base = (1, 3, 2, 6, 4, 5)[round(hue * 6) % 6]
    return base + 8 if value > 0.85 else base


@lru_cache(maxsize=1_024)
def _classes(style: Style) -> str:
    """Inverse swaps the colours. Dim applies only to the default colour, for readability."""
    foreground, background, weights = style.foreground, style.background, style.weights
    names = [f"a-{weight}" for weight in sorted(weights - {"inverse", "dim"})]
    if "inverse" in weights:
        foreground, background = background, foreground
        if foreground is None and background is None:
            return " ".join([*names, "a-inverse"])
    if "dim" in weights and foreground is None:
        names.append("a-dim")
    if foreground is not None:
        bright = "bright-" if foreground >= 8 else ""
        names.append(f"a-{bright}{_COLOURS[foreground % 8]}")
    if background is not None:
        names.append(f"a-on-{_COLOURS[background % 8]}")
    return " ".join(names)
