"""Converts ordinary arguments without Pydantic, whose import takes longer than most commands.

Typer converts the others, such as choices, and says what is wrong with a value.
"""

from pathlib import Path
from typing import Any

import typer.core

_NOT_PLAIN = object()
_MAX_DIGITS = 15


def convert_plain_values() -> None:
    # A version of Typer without this name is only slower.
    vars(typer.core)["build_runtime_param"] = PlainValue


class PlainValue:
    """Takes the place of Typer's conversion of one parameter."""

    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_repeatable = param.multiple or param.nargs == -1
        converted = self._convert(value, is_repeatable)
        if converted is not _NOT_PLAIN:
            return converted
        from typer._coercion import build_runtime_param

        return build_runtime_param(self._descriptor).coerce(value, param=param, ctx=ctx)

    def _convert(self, value: Any, is_repeatable: bool) -> Any:
        annotation = self._descriptor.annotation
        if value is None:
            return () if is_repeatable else None
        if annotation is str and isinstance(value, str):
            return value
        if annotation is Path and isinstance(value, str):
            return Path(value)
        if annotation == list[str] and isinstance(value, list | tuple):
            return list(value)
        if annotation is int and isinstance(value, int | str):
            return self._convert_number(value)
        return _NOT_PLAIN

    def _convert_number(self, value: int | str) -> Any:
        text = str(value)
        limits = self._descriptor.parameter_info
        if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
            return _NOT_PLAIN
        is_allowed = (limits.min is None or limits.min <= int(text)) and (
            limits.max is None or int(text) <= limits.max
        )
        return int(text) if is_allowed else _NOT_PLAIN
