"""PostgreSQL arrays as text: asyncpg inspects every element of an array that it encodes itself,
and for types other than `text[]` it asks the server about the type on every new connection."""

from collections.abc import Sequence

import msgspec

_encode = msgspec.json.Encoder().encode

Element = str | int | bytes | None


def array(name: str, type_: str) -> str:
    """SQL for the parameter as an array of this PostgreSQL type; its value is `array_literal`."""
    return f"CAST(CAST(:{name} AS text) AS {type_}[])"


def array_literal(values: Sequence[Element]) -> str:
    # The elements of an array have one type.
    if isinstance(next((value for value in values if value is not None), None), bytes):
        return _quote_each(values)
    # A JSON array differs by its brackets and by the escapes in its strings.
    encoded = _encode(values).decode()
    return _quote_each(values) if "\\" in encoded else f"{{{encoded[1:-1]}}}"


def _quote_each(values: Sequence[Element]) -> str:
    return f"{{{','.join(map(_quote, values))}}}"


def _quote(value: Element) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
