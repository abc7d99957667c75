"""Amounts of money: whole billionths of a US dollar, never floats."""

from decimal import Decimal

NANOUSD_PER_USD = 1_000_000_000


def usd(nanousd: int | None) -> float | None:
    """For JSON, where most readers parse numbers as floats. Not for calculations."""
    return None if nanousd is None else nanousd / NANOUSD_PER_USD


def nanousd(usd: float | None) -> int | None:
    """Converts the shortest decimal form, so that 0.1 is exactly a tenth of a dollar."""
    return None if usd is None else int(Decimal(str(usd)) * NANOUSD_PER_USD)


def usd_text(nanousd: int | None) -> str | None:
    """Exact, with at least two decimals: 5.00, 0.25, 0.001."""
    if nanousd is None:
        return None
    dollars, rest = divmod(nanousd, NANOUSD_PER_USD)
    decimals = f"{rest:09d}".rstrip("0")
    return f"{dollars}.{decimals:0<2}"
