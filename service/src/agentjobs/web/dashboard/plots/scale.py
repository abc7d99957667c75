"""Axis ticks of plots, and formatting of values."""

import math
from typing import Literal

Unit = Literal["count", "ms", "usd"]

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
# Round durations, instead of powers of ten.
_TIME_STEPS = tuple(
    unit * step
    for unit, steps in (
        (_SECOND, (1, 2, 5, 10, 15, 30)),
        (_MINUTE, (1, 2, 5, 10, 15, 30)),
        (_HOUR, (1, 2, 3, 6, 12)),
        (_DAY, (1, 2, 5, 10)),
    )
    for step in steps
)
_LARGE = ((1e15, "e"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def ticks(highest: float, unit: Unit, max_ticks: int = 4) -> list[float]:
    """Round numbers from 0 to the first one at or above `highest`."""
    step = _step(highest / max_ticks, unit) if highest > 0 else 1.0
    count = max(1, math.ceil(round(highest / step, 9)))
    return [step * at for at in range(count + 1)]


def _step(min_step: float, unit: Unit) -> float:
    if unit == "ms" and _SECOND / 2 < min_step <= _TIME_STEPS[-1]:
        return float(next(step for step in _TIME_STEPS if step >= min_step))
    if unit == "count":
        min_step = max(min_step, 1.0)
    # Avoids underflow.
    power = 10.0 ** math.floor(math.log10(max(min_step, 1e-300)))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= min_step * 0.999_999)


def format_value(value: float | None, unit: Unit) -> str:
    """A value for a table or a title."""
    if value is None:
        return "none"
    if unit == "ms":
        return _duration(value)
    if unit == "usd":
        return f"${value:,.2f}" if value == 0 or 0.01 <= value < 1e15 else f"${value:.2g}"
    return f"{value:,.0f}" if float(value).is_integer() and value < 1e15 else f"{value:,.3g}"


def format_tick(value: float, unit: Unit) -> str:
    """A short form for an axis."""
    if unit == "ms" and value:
        return _duration(value)
    sign = "$" if unit == "usd" else ""
    if value >= 1e18:
        return f"{sign}{value:.0e}".replace("e+", "e")
    for size, letter in _LARGE[1:]:
        if value >= size:
            return f"{sign}{value / size:.3g}{letter}"
    if unit == "usd" and 0.01 <= value < 10 and not float(value).is_integer():
        return f"${value:.2f}"
    return f"{sign}{value:.3g}"


def _duration(value: float) -> str:
    if value < _SECOND:
        return f"{value:.3g} ms"
    for size, letter in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s")):
        if value >= size:
            number = value / size
            # `3 d` and `1.5 min`; scientific notation for absurdly long durations.
            return f"{number:.3g} {letter}" if number < 1e4 else f"{number:.0e} {letter}"
    return "0"
