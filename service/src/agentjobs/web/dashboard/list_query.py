"""The parameters of a list in its address: filters, order and position."""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Self
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

PageNumber = Annotated[int, Meta(ge=1, le=99_999)]
_MAX_CHARACTERS = 1_000
# They do not leave anything out.
_POSITIONS = frozenset({"after", "before", "format", "group", "order", "page"})


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter that its type does not allow has its default."""

    @classmethod
    def read(cls, get: Callable[[str], str]) -> Self:
        """`get` returns a parameter, or the empty string."""
        values: dict[str, Any] = {}
        for field in msgspec.structs.fields(cls):
            if text := get(field.name)[:_MAX_CHARACTERS]:
                with suppress(msgspec.ValidationError):
                    values[field.name] = msgspec.convert(text, field.type, strict=False)
        return cls(**values)

    @property
    def is_narrowed(self) -> bool:
        return not _POSITIONS.issuperset(self._changed())

    def address(self, path: str, **changes: Any) -> str:
        query = urlencode(msgspec.structs.replace(self, **changes)._changed())
        return f"{path}?{query}" if query else path

    def _changed(self) -> dict[str, Any]:
        """The parameters that differ from their defaults."""
        return {
            name: value
            for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True)
            if (value := getattr(self, name)) != default
        }
