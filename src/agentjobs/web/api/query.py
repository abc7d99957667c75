"""Query parameters: every fault collected. Unknown parameters are ignored, as in bodies."""

import re
from collections.abc import Collection
from typing import TypeVar
from urllib.parse import parse_qsl

from starlette.types import Scope

from agentjobs.web.api.errors import validation_failed

_MOST_PARAMETERS = 100
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)

Word = TypeVar("Word", bound=str)


class Query:
    """Ask for each parameter, then `check()`: it raises `validation_failed` with all faults."""

    def __init__(self, scope: Scope) -> None:
        self._faults: list[dict[str, str]] = []
        self._values: dict[str, list[str]] = {}
        text: bytes = scope["query_string"]
        if text:
            self._parse(text)

    def number(self, name: str, *, least: int, most: int) -> int | None:
        text = self._one(name)
        if text is None:
            return None
        if _WHOLE_NUMBER.fullmatch(text) and least <= int(text) <= most:
            return int(text)
        self.refuse(name, f"must be a whole number from {least} to {most}")
        return None

    def choice(self, name: str, choices: Collection[Word]) -> Word | None:
        text = self._one(name)
        if text is None:
            return None
        for choice in choices:
            if text == choice:
                return choice
        self.refuse(name, f"must be one of {', '.join(choices)}")
        return None

    def text(self, name: str, *, most: int) -> str | None:
        text = self._one(name)
        if text is None:
            return None
        if 1 <= len(text) <= most and "\x00" not in text:
            return text
        self.refuse(name, f"must have 1 to {most} characters, none of them null")
        return None

    def refuse(self, name: str, message: str) -> None:
        self._faults.append({"field": name, "message": message})

    def check(self) -> None:
        if self._faults:
            raise validation_failed(self._faults)

    def _parse(self, text: bytes) -> None:
        try:
            pairs = parse_qsl(
                text.decode("latin-1"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=_MOST_PARAMETERS,
            )
        except UnicodeDecodeError:
            self.refuse("query", "must be UTF-8, percent-encoded")
            return
        except ValueError:
            self.refuse("query", f"must have at most {_MOST_PARAMETERS} parameters")
            return
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def _one(self, name: str) -> str | None:
        values = self._values.get(name)
        if values is None:
            return None
        if len(values) > 1:
            self.refuse(name, "must be given once")
            return None
        return values[0]
