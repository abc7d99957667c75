"""Parses submitted forms, within limits on size and number of fields."""

from typing import TypeVar
from urllib.parse import parse_qsl

from msgspec import Struct, structs
from starlette.requests import Request

from agentjobs.web.api.headers import media_type
from agentjobs.web.api.requests import read_body
from agentjobs_runtime.problems import Problem

MAX_FORM_BYTES = 512 * 1024
_MAX_FIELDS = 200
_FORM = "application/x-www-form-urlencoded"

Values = TypeVar("Values", bound=Struct)


class Form:
    """Fields as text; a missing field is the empty string."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def __contains__(self, name: str) -> bool:
        return any(field == name for field, _ in self._fields)

    def text(self, name: str) -> str:
        """A value without surrounding whitespace."""
        return self.raw(name).strip()

    def raw(self, name: str) -> str:
        """A value as typed, with `\\n` line ends: for passwords and longer text."""
        value = next((value for field, value in self._fields if field == name), "")
        return value.replace("\r\n", "\n")

    def optional(self, name: str) -> str | None:
        return self.text(name) or None

    def all(self, name: str) -> list[str]:
        return [value for field, value in self._fields if field == name]

    def flag(self, name: str) -> bool:
        return bool(self.text(name))

    def fill(self, type_: type[Values]) -> Values:
        """A struct of texts and flags, each from the field of its name."""
        readers = {bool: self.flag, str: self.text}
        return type_(
            **{field.name: readers[field.type](field.name) for field in structs.fields(type_)}
        )

    def whole_number(self, name: str, label: str) -> int | None:
        text = self.text(name)
        if not text:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > 15:
            raise Problem(
                "invalid_number", f"{label}: enter a whole number, or leave the field empty."
            )
        return int(text)


async def read_form(request: Request) -> Form:
    if media_type(request.headers.get("content-type")) != _FORM:
        raise Problem("unsupported_media_type", f"Send the form as {_FORM}.")
    body = await read_body(request.scope, request.receive, MAX_FORM_BYTES)
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_FIELDS,
        )
    except ValueError:
        raise _unreadable() from None
    if any("\0" in value for _, value in fields):
        raise _unreadable()
    return Form(fields)


def _unreadable() -> Problem:
    return Problem(
        "bad_request", "The form could not be read. Go back, reload the page and try again."
    )
