"""What a request contains and the service ignores: unknown fields and query parameters."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Scope

from agentjobs.web.api.query import MAX_PARAMETERS, parameter_names
from agentjobs_runtime.json_fields import nested_names
from agentjobs_runtime.safe_text import ellipsize, escape_unprintable

MAX_WARNINGS = 10
_MAX_NAME_CHARACTERS = 60
_MIN_SIMILARITY = 0.7
_MIN_PREFIX = 4
_JSON_BODY = "agentjobs.json_body"

_encode = msgspec.json.encode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_warnings = msgspec.json.Decoder(list[str]).decode


def keep_body(scope: Scope, body: Mapping[str, Any]) -> None:
    """For `ignored_parts`."""
    scope[_JSON_BODY] = body


def ignored_parts(
    scope: Scope, query: type | None, request: type[msgspec.Struct] | None
) -> list[str]:
    """A warning for each, as sentences; `query` and `request` declare what is known."""
    warnings = []
    if scope["query_string"]:
        warnings += _ignored_parameters(scope["query_string"], query)
    body = scope.get(_JSON_BODY)
    if body is not None and request is not None:
        warnings += _ignored_fields(body, request)
    return warnings


def add_warnings(body: bytes, warnings: Sequence[str]) -> bytes:
    """The JSON object with these after the warnings that it has already."""
    fields = _decode_fields(body)
    earlier = _decode_warnings(fields.get("warnings", b"[]"))
    fields["warnings"] = msgspec.Raw(_encode([*earlier, *warnings]))
    return _encode(fields)


def _ignored_parameters(query_string: bytes, type_: type | None) -> list[str]:
    text = query_string.decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        return [f"The query was ignored: it has more than {MAX_PARAMETERS} parameters."]
    names, prefixes = parameter_names(type_)
    unknown = {
        name: None for name, _ in pairs if name not in names and not name.startswith(prefixes)
    }
    known = {name: name for name in names} | {prefix: f"{prefix}KEY" for prefix in prefixes}
    return _warnings(unknown, known, "query parameter")


def _ignored_fields(body: Mapping[str, Any], type_: type[msgspec.Struct]) -> list[str]:
    names, nested = type_.__struct_encode_fields__, nested_names(type_)
    known = {
        **{inner: f"{outer}.{inner}" for outer, inners in nested.items() for inner in inners},
        **{name: name for name in names},
    }
    warnings = _warnings((name for name in body if name not in names), known, "field")
    for outer, inners in nested.items():
        own = body.get(outer)
        if isinstance(own, dict):
            warnings += _misspelling_warnings(
                outer, (name for name in own if name not in inners), inners
            )
    return warnings


def _warnings(unknown: Iterable[str], known: Mapping[str, str], kind: str) -> list[str]:
    names = list(unknown)
    warnings = [
        f"`{_printable(name)}` was ignored: "
        + (f"did you mean `{meant}`?" if meant else f"there is no such {kind}.")
        for name in names[:MAX_WARNINGS]
        for meant in [_closest(name, known)]
    ]
    if len(names) > MAX_WARNINGS:
        warnings.append(f"{len(names) - MAX_WARNINGS} more {kind}s were ignored.")
    return warnings


def _misspelling_warnings(outer: str, unknown: Iterable[str], known: Iterable[str]) -> list[str]:
    """Unknown names here are not ignored, so only those that look like a known one are named."""
    candidates = {name: f"{outer}.{name}" for name in known}
    return [
        f"`{outer}.{_printable(name)}` was only passed to the agent: did you mean `{meant}`?"
        for name in islice(unknown, MAX_WARNINGS)
        if (meant := _closest(name, candidates)) is not None
    ]


def _closest(name: str, known: Mapping[str, str]) -> str | None:
    """The known name that `name` resembles or shortens, regardless of case and of `_` and `-`."""
    candidates = {_comparable(name): meant for name, meant in known.items()}
    wanted = _comparable(name[:_MAX_NAME_CHARACTERS])
    matches = difflib.get_close_matches(wanted, candidates, n=1, cutoff=_MIN_SIMILARITY)
    if not matches and len(wanted) >= _MIN_PREFIX:
        # Such as `repository` for `repo`, or `timeout` for `timeout_seconds`.
        matches = [candidate for candidate in candidates if _is_prefix(candidate, wanted)]
    return candidates[matches[0]] if matches else None


def _is_prefix(first: str, second: str) -> bool:
    shorter, longer = sorted((first, second), key=len)
    return len(shorter) >= _MIN_PREFIX and longer.startswith(shorter)


def _comparable(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _printable(name: str) -> str:
    return escape_unprintable(ellipsize(name, _MAX_NAME_CHARACTERS))
