"""Parses query parameters into the type that an operation declares; `warnings` names others.

A list is repeated or separated by commas; an object has a parameter `field.key` for each key.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect
from starlette.types import Scope

from agentjobs.web.api.errors import validation_failed
from agentjobs_runtime.json_fields import field_types, find_faults
from agentjobs_runtime.problems import Fault

# More parameters than any operation has; reading them all would take long.
MAX_PARAMETERS = 100
_INDEX = re.compile(r"\[[0-9]+\]$")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,1000}")
_BOOLEANS = {"true": True, "false": False}

Q = TypeVar("Q", bound=msgspec.Struct)


def read_query(
    scope: Scope,
    type_: type[Q],
    more_faults: Callable[[Mapping[str, Any]], list[Fault]] | None = None,
) -> Q:
    """Raises `validation_failed` with all faults, including those of `more_faults`."""
    if not scope["query_string"]:
        return type_()
    parameters = _parse(scope["query_string"])
    given = _values(parameters, type_)
    faults: list[Fault] = [
        {"field": name, "message": "must be given once"}
        for name, values in parameters.items()
        if len(values) > 1 and _takes_one_value(name, type_)
    ]
    faults += [
        # A list is a single parameter.
        {**fault, "field": _INDEX.sub("", fault["field"])}
        for fault in find_faults(given, type_)
    ]
    if more_faults is not None:
        faults += more_faults(given)
    if faults:
        raise validation_failed(faults)
    return msgspec.convert(given, type_)


@functools.cache
def parameter_names(type_: type | None) -> tuple[frozenset[str], tuple[str, ...]]:
    """The names that `type_` declares, and the prefixes of those of its objects."""
    kinds = {} if type_ is None else field_types(type_)
    objects = [name for name, kind in kinds.items() if isinstance(kind, inspect.DictType)]
    return frozenset(kinds) - set(objects), tuple(f"{name}." for name in objects)


def _takes_one_value(parameter: str, type_: type) -> bool:
    names, prefixes = parameter_names(type_)
    is_list = isinstance(field_types(type_).get(parameter), inspect.ListType)
    return parameter.startswith(prefixes) or (parameter in names and not is_list)


def _values(parameters: Mapping[str, Sequence[str]], type_: type) -> dict[str, Any]:
    """Converts values by field; unreadable ones remain strings."""
    values: dict[str, Any] = {}
    for name, kind in field_types(type_).items():
        if isinstance(kind, inspect.DictType):
            prefix = f"{name}."
            values[name] = {
                parameter.removeprefix(prefix): texts[0]
                for parameter, texts in parameters.items()
                if parameter.startswith(prefix)
            }
        elif name in parameters:
            values[name] = _value(parameters[name], kind)
    return values


def _value(texts: Sequence[str], kind: inspect.Type) -> Any:
    text = texts[0]
    if isinstance(kind, inspect.ListType):
        return list(dict.fromkeys(part for text in texts for part in text.split(",")))
    if isinstance(kind, inspect.IntType) and _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if isinstance(kind, inspect.BoolType):
        return _BOOLEANS.get(text, text)
    return text


def _parse(query_string: bytes) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(
            query_string.decode("latin-1"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except UnicodeDecodeError:
        raise _invalid_query("must be UTF-8, percent-encoded") from None
    except ValueError:
        raise _invalid_query(f"must have at most {MAX_PARAMETERS} parameters") from None
    parameters: dict[str, list[str]] = {}
    for name, value in pairs:
        parameters.setdefault(name, []).append(value)
    return parameters


def _invalid_query(message: str) -> Exception:
    return validation_failed([{"field": "query", "message": message}])
