"""SQL is written once, in the dialect both engines share; this renders it for the one in use.

- `:name` is a parameter everywhere but in literals, quoted names, comments and `::casts`.
- `/*postgresql FOR UPDATE SKIP LOCKED */` is text for PostgreSQL alone, `/*sqlite … */` for SQLite.
- `IN (SELECT value FROM each(:ids))` takes a list of texts, empty ones too.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentjobs.store.database import Engine, StoreError

_TOKEN = re.compile(
    r"""
      '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | ::
    | /\*(?P<engine>sqlite|postgresql)\s(?P<fragment>.*?)\*/
    | /\*.*?\*/
    | \beach\(\s*:(?P<list>[A-Za-z_]\w*)\s*\)
    | :(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A rendered statement and how its parameters are handed over."""

    sql: str
    names: tuple[str, ...]
    lists: frozenset[str]

    def by_name(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """For SQLite, which looks the names up itself and takes a list as JSON."""
        if not self.lists:
            return parameters
        try:
            encoded = {name: json.dumps(list(parameters[name])) for name in self.lists}
        except KeyError as missing:
            raise _no_value(missing) from None
        return {**parameters, **encoded}

    def by_position(self, parameters: Mapping[str, Any]) -> list[Any]:
        """For PostgreSQL: `$1` first."""
        try:
            values = [parameters[name] for name in self.names]
        except KeyError as missing:
            raise _no_value(missing) from None
        if self.lists:
            return [
                list(value) if name in self.lists else value
                for name, value in zip(self.names, values, strict=True)
            ]
        return values


@lru_cache(maxsize=4096)
def render(engine: Engine, sql: str) -> Statement:
    names: dict[str, int] = {}
    lists: set[str] = set()

    def place(name: str) -> str:
        number = names.setdefault(name, len(names) + 1)
        return f":{name}" if engine == "sqlite" else f"${number}"

    def token(found: re.Match[str]) -> str:
        if found["engine"]:
            return _TOKEN.sub(token, found["fragment"]) if found["engine"] == engine else " "
        if found["list"]:
            lists.add(found["list"])
            parameter = place(found["list"])
            if engine == "sqlite":
                return f"json_each({parameter}) AS each"
            return f"unnest({parameter}::text[]) AS each(value)"
        return place(found["name"]) if found["name"] else found[0]

    return Statement(_TOKEN.sub(token, sql), tuple(names), frozenset(lists))


def _no_value(missing: KeyError) -> StoreError:
    return StoreError(f"no value for the parameter :{missing.args[0]}")
