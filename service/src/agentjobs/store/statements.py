"""Renders SQL that is written once for the engine in use.

- `:name` is a parameter, except in literals, quoted names, comments and `::casts`.
- `/*postgresql FOR UPDATE SKIP LOCKED */` is only for PostgreSQL, `/*sqlite … */` for SQLite.
- `IN (SELECT value FROM each(:ids))` takes a list of strings, which may be empty.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

from agentjobs.store.array_literal import array_literal
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
_READ = re.compile(r"\s*(SELECT|WITH|VALUES)\b")
_WRITE_OR_LOCK = re.compile(r"\b(INTO|UPDATE|DELETE|SHARE|pg_notify|pg_\w+_lock\w*)\b")


@dataclass(frozen=True, slots=True)
class Statement:
    """A rendered statement and how to pass its parameters.

    `only_reads`: it neither writes nor locks anything.
    """

    sql: str
    only_reads: bool
    names: tuple[str, ...]
    lists: frozenset[str]
    encode_list: Callable[[Iterable[str]], str]
    select: Callable[[Mapping[str, Any]], tuple[Any, ...]]

    def by_position(self, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Orders values as the placeholders are; binding by name takes several times as long."""
        try:
            values = self.select(parameters)
        except KeyError as missing:
            raise StoreError(f"the parameter :{missing.args[0]} has no value") from None
        if self.lists:
            return [
                self.encode_list(value) if name in self.lists else value
                for name, value in zip(self.names, values, strict=True)
            ]
        return values


@lru_cache(maxsize=4096)
def render(engine: Engine, sql: str) -> Statement:
    names: dict[str, int] = {}
    lists: set[str] = set()

    def placeholder(name: str) -> str:
        number = names.setdefault(name, len(names) + 1)
        return f"?{number}" if engine == "sqlite" else f"${number}"

    def replace(match: re.Match[str]) -> str:
        if match["engine"]:
            return _TOKEN.sub(replace, match["fragment"]) if match["engine"] == engine else " "
        if match["list"]:
            lists.add(match["list"])
            parameter = placeholder(match["list"])
            if engine == "sqlite":
                return f"json_each({parameter}) AS each"
            # The subquery hides the length of the list from the planner. Otherwise PostgreSQL may
            # find that the plan depends on it, and plan the statement again for every call.
            return f"unnest((SELECT {parameter}::text::text[])) AS each(value)"
        return placeholder(match["name"]) if match["name"] else match[0]

    rendered = _TOKEN.sub(replace, sql)
    encode_list = _json_list if engine == "sqlite" else _array_literal
    return Statement(
        rendered,
        _READ.match(rendered) is not None and _WRITE_OR_LOCK.search(rendered) is None,
        tuple(names),
        frozenset(lists),
        encode_list,
        _selector(*names),
    )


def _selector(*names: str) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """A function that takes the values of these names out of a mapping."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda parameters: tuple(parameters[name] for name in names)


def _json_list(values: Iterable[str]) -> str:
    return json.dumps(list(values))


def _array_literal(values: Iterable[str]) -> str:
    return array_literal(list(values))
