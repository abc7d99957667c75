"""Parses query parameters into the type that an operation declares; `warnings` names others."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Scope

from agentjobs.json_fields import faults_of, parse_texts, takes_one_value
from agentjobs.problems import Fault
from agentjobs.web.api.errors import validation_failed

_MAX_PARAMETERS = 100
_INDEX = re.compile(r"\[[0-9]+\]$")

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
    given = parse_texts(parameters, type_)
    faults: list[Fault] = [
        {"field": name, "message": "must be given once"}
        for name, values in parameters.items()
        if len(values) > 1 and takes_one_value(name, type_)
    ]
    faults += [
        # A list is a single parameter.
        {**fault, "field": _INDEX.sub("", fault["field"])}
        for fault in faults_of(given, type_)
    ]
    if more_faults is not None:
        faults += more_faults(given)
    if faults:
        raise validation_failed(faults)
    return msgspec.convert(given, type_)


def _parse(query_string: bytes) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(
            query_string.decode("latin-1"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_PARAMETERS,
        )
    except UnicodeDecodeError:
        raise _invalid_query("must be UTF-8, percent-encoded") from None
    except ValueError:
        raise _invalid_query(f"must have at most {_MAX_PARAMETERS} parameters") from None
    parameters: dict[str, list[str]] = {}
    for name, value in pairs:
        parameters.setdefault(name, []).append(value)
    return parameters


def _invalid_query(message: str) -> Exception:
    return validation_failed([{"field": "query", "message": message}])
