"""Template filters that format numbers, times, counts and addresses. Pure functions."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from agentjobs.web.dashboard.zones import local_time
from agentjobs_runtime.clock import iso_utc, now_ms
from agentjobs_runtime.money import NANOUSD_PER_USD

NOTHING = "\N{EN DASH}"

# Excludes javascript: and data:, and characters that browsers drop or interpret.
_WEB = re.compile(r"https?://[^\s\x00-\x20\x7f]+", re.IGNORECASE)
_MAX_DISTANCE_SECONDS = 30 * 86_400
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def exact(at_ms: int | None, zone: tzinfo = UTC, otherwise: str = "never") -> Markup | str:
    """A time in the viewer's time zone, which the footer names."""
    if at_ms is None:
        return otherwise
    iso = iso_utc(at_ms)
    shown = local_time(at_ms, zone).strftime("%Y-%m-%d %H:%M")
    in_utc = iso[:16].replace("T", " ")
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(iso, in_utc, shown)


def moment(
    at_ms: int | None, now: int, zone: tzinfo = UTC, otherwise: str = "never"
) -> Markup | str:
    """How long ago, or until when; the script keeps it current. The exact time is its title."""
    if at_ms is None:
        return otherwise
    shown = local_time(at_ms, zone).strftime("%Y-%m-%d %H:%M:%S")
    text = distance(at_ms - now) or shown[:10]
    return Markup('<time datetime="{}" title="{}" data-moment>{}</time>').format(
        iso_utc(at_ms), shown, text
    )


def distance(ms: int) -> str:
    """3 min ago, in 2 h; nothing for more than a month."""
    seconds = abs(ms) // 1_000
    if seconds < 60:
        return "just now" if ms <= 0 else "in a moment"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            amount = f"{seconds // size} {unit}"
            break
    if seconds >= _MAX_DISTANCE_SECONDS:
        return ""
    return f"{amount} ago" if ms <= 0 else f"in {amount}"


@pass_context
def _exact(context: Context, at_ms: int | None, otherwise: str = "never") -> Markup | str:
    return exact(at_ms, context.get("zone", UTC), otherwise)


@pass_context
def _moment(context: Context, at_ms: int | None, otherwise: str = "never") -> Markup | str:
    return moment(at_ms, now_ms(), context.get("zone", UTC), otherwise)


def elapsed(ms: int) -> Markup:
    """A running duration, which the script keeps counting."""
    return Markup('<span data-elapsed="{}">{}</span>').format(max(ms, 0), duration(ms))


def duration(ms: int | float | None, otherwise: str = NOTHING) -> str:
    """Uses the two largest units: 850 ms, 12 s, 3 min 5 s, 2 h 14 min."""
    if ms is None:
        return otherwise
    if ms < 1_000:
        return f"{max(round(ms), 0)} ms"
    for index, (size, unit) in enumerate(_UNITS):
        if ms < size:
            continue
        whole, rest = divmod(round(ms), size)
        if index + 1 == len(_UNITS):
            return f"{whole} {unit}" if ms >= 10_000 else f"{ms / 1_000:.1f} {unit}"
        smaller, name = _UNITS[index + 1]
        return f"{whole} {unit} {rest // smaller} {name}" if rest >= smaller else f"{whole} {unit}"
    raise AssertionError("every duration of a second or more has a unit")


def dollars(nanousd: int | None, otherwise: str = NOTHING) -> str:
    if nanousd is None:
        return otherwise
    amount = nanousd / NANOUSD_PER_USD
    if 0 < amount < 0.01:
        return f"${amount:.4f}"
    return f"${amount:,.2f}"


def count(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.0f} %"


def size(number: int) -> str:
    """512 bytes, 1.5 KiB, 2.0 GiB."""
    if number < 1024:
        return counted(number, "byte")
    amount = float(number)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024 or unit == "GiB":
            break
    return f"{amount:,.1f} {unit}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """1 job, 2 jobs, 1,000 jobs."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def web_address(url: str | None) -> str:
    """The address, which comes from others; the empty string if it must not become a link."""
    return url if url is not None and _WEB.fullmatch(url) else ""


FILTERS: Mapping[str, Callable[..., Any]] = {
    "exact": _exact,
    "moment": _moment,
    "elapsed": elapsed,
    "duration": duration,
    "dollars": dollars,
    "count": count,
    "percent": percent,
    "counted": counted,
    "size": size,
    "web_address": web_address,
}
