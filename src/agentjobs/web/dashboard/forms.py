"""Reading what a form sent: bounded, UTF-8, field by field."""

from urllib.parse import parse_qsl

from starlette.requests import Request

from agentjobs.problems import Problem
from agentjobs.web.api.headers import media_type
from agentjobs.web.api.requests import read_body

MOST_FORM_BYTES = 512 * 1024
_MOST_FIELDS = 200
_FORM = "application/x-www-form-urlencoded"


class Form:
    """Fields as text. What is missing is the empty text."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """One line, without the spaces around it."""
        return self.raw(name).strip()

    def raw(self, name: str) -> str:
        """As it was typed, with line feeds for line ends: for passwords and longer texts."""
        found = next((value for field, value in self._fields if field == name), "")
        return found.replace("\r\n", "\n")

    def optional(self, name: str) -> str | None:
        return self.text(name) or None

    def all(self, name: str) -> list[str]:
        return [value for field, value in self._fields if field == name]

    def flag(self, name: str) -> bool:
        return bool(self.text(name))

    def whole_number(self, name: str, label: str) -> int | None:
        text = self.text(name)
        if not text:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > 15:
            raise Problem("invalid_number", f"{label}: write a whole number, or leave it empty.")
        return int(text)


async def read_form(request: Request) -> Form:
    if media_type(request.headers.get("content-type")) != _FORM:
        raise Problem("unsupported_media_type", f"Send the form as {_FORM}.")
    body = await read_body(request.scope, request.receive, MOST_FORM_BYTES)
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise _unreadable() from None
    if any("\0" in value for _, value in fields):
        raise _unreadable()
    return Form(fields)


def _unreadable() -> Problem:
    return Problem(
        "bad_request", "The form cannot be read; go back, reload the page and try again."
    )
