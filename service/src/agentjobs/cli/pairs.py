"""Parses KEY=VALUE arguments."""

from collections.abc import Sequence

import typer


def parse_pairs(pairs: Sequence[str], hint: str) -> dict[str, str]:
    """`hint` is the option that they belong to."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not key or not separator:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=hint)
        if key in parsed:
            raise typer.BadParameter(f"{key!r} is given twice", param_hint=hint)
        parsed[key] = value
    return parsed
