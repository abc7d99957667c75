"""The fields of requests and responses: how types declare them, and how values are checked.

A type holds descriptions and constraints in `msgspec.Meta`. Validation, the OpenAPI document and
the API reference all read them from there.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import Meta, inspect

from agentjobs_runtime.problems import Fault
from agentjobs_runtime.safe_text import ellipsize

Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Url = Annotated[str, Meta(extra_json_schema={"format": "uri"})]
Count = Annotated[int, Meta(ge=0)]

# Larger integers are clamped, because msgspec rejects some before it compares them to a bound.
_MAX_INTEGER = 2**62
_TYPE_MESSAGES = {
    "str": "must be a string",
    "int": "must be a whole number",
    "float": "must be a number",
    "bool": "must be true or false",
    "array": "must be a list",
    "object": "must be an object",
}
_COMPARISONS = {">=": "at least", "<=": "at most", ">": "greater than", "<": "less than"}
_UNITS = {"str": ("be", " characters"), "array": ("have", " items")}
# The length of a key in the path of a fault.
_MAX_KEY_CHARACTERS = 100
_TYPE_ERROR = re.compile(r"Expected `(\w+)")
_BOUND_ERROR = re.compile(r"Expected `(\w+)` (?:of length )?([<>]=?) ([0-9.e+-]+)")
_PATH = re.compile(r" - at `\$(.*)`")


View = TypeVar("View", bound=msgspec.Struct)


class Rule(NamedTuple):
    """A regular expression, in the dialect that Python and JSON Schema share, and its message."""

    pattern: str
    message: str


# Python and JSON Schema disagree on whether \x1c to \x1f, \x85 and \ufeff are whitespace.
NOT_BLANK = Rule("[^\\s\\x1c-\\x1f\\x85\ufeff]", "must not be blank")
CONTROL_CHARACTERS = Rule("[\\x00-\\x1f\\x7f]", "must not contain control characters")
NULL_CHARACTERS = Rule("\\x00", "must not contain null characters")
# Line separators, and marks that reorder the text around them, as well.
UNPRINTABLE_CHARACTERS = Rule(
    "[\\x00-\\x1f\\x7f-\\x9f\u2028-\u202e\u2066-\u2069]",
    "must be one line without control characters",
)


def doc(description: str) -> Meta:
    return Meta(description=description)


def text(
    description: str | None = None,
    *,
    min_length: int | None = None,
    max_length: int | None = None,
    matching: Rule | None = None,
    without: Rule | None = None,
    examples: list[str] | None = None,
) -> Meta:
    """For a string in which `matching` must be found and `without` must not."""
    return Meta(
        description=description,
        min_length=min_length,
        max_length=max_length,
        pattern=matching.pattern if matching else None,
        examples=examples,
        # A pattern without a type matches null too, so `not` would reject null.
        extra_json_schema={"not": {"type": "string", "pattern": without.pattern}}
        if without
        else None,
        extra={"matching": matching, "without": without},
    )


def known_values(description: str, values: Iterable[str]) -> Meta:
    """For a string of a response whose set of values may grow."""
    return Meta(description=description, extra_json_schema={"x-extensible-enum": list(values)})


def copy_fields(source: object, type_: type[View], **others: Any) -> View:
    """The view of an object: its fields of the same names, and `others`."""
    names = [name for name in type_.__struct_fields__ if name not in others]
    return type_(**{name: getattr(source, name) for name in names}, **others)


def select_fields(body: Mapping[str, Any], type_: type) -> dict[str, Any]:
    return {field.name: body[field.name] for field in _fields(type_) if field.name in body}


@functools.cache
def field_types(type_: type) -> Mapping[str, inspect.Type]:
    """The types of the fields, without null and metadata."""
    return {field.name: field.kind for field in _fields(type_)}


@functools.cache
def nested_names(type_: type) -> Mapping[str, tuple[str, ...]]:
    """The keys that the service knows, for each field that is an object with declared keys."""
    return {
        field.name: tuple(inner.name for inner in _fields(field.object_type))
        for field in _fields(type_)
        if field.object_type is not None
    }


def find_faults(body: Mapping[str, Any], type_: type) -> list[Fault]:
    """Every field of `body` that does not fit its declaration, in the order of the declarations.

    Fields without a declaration are accepted.
    """
    return list(_faults(body, type_, "", is_converted=_converts(body, type_)))


def _faults(
    body: Mapping[str, Any], type_: type, prefix: str, *, is_converted: bool
) -> Iterator[Fault]:
    for field in _fields(type_):
        path, value = prefix + field.name, body.get(field.name)
        if value is None and field.required:
            yield {"field": path, "message": "is required"}
        elif isinstance(value, dict) and field.object_type is not None:
            yield from _faults(value, field.object_type, f"{path}.", is_converted=is_converted)
        elif isinstance(value, dict) and isinstance(field.kind, inspect.DictType):
            yield from field.entry_faults(path, value)
        elif field.name in body:
            violation = None if is_converted else field.mismatch(value)
            violation = violation or field.forbidden_text(value)
            if violation is not None:
                yield {"field": path + violation.path, "message": violation.message}


def _converts(value: Any, hint: Any) -> bool:
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError:
        return False
    return True


class _Violation(NamedTuple):
    path: str
    message: str


class _Field:
    """A declared field with what is needed to check it; `kind` leaves out null and metadata."""

    def __init__(self, field: inspect.Field, hint: Any) -> None:
        self.name = field.encode_name
        self.required = field.required
        self.kind, extra = _unwrap(field.type)
        self.object_type = self.kind.cls if isinstance(self.kind, inspect.TypedDictType) else None
        self._hint = hint
        self._matching: Rule | None = extra.get("matching")
        self._without: Rule | None = extra.get("without")
        self._is_forbidden = re.compile(self._without.pattern if self._without else "").search

    def mismatch(self, value: Any) -> _Violation | None:
        try:
            msgspec.convert(_comparable(value), self._hint)
        except msgspec.ValidationError as error:
            path = _PATH.search(str(error))
            return _Violation(path[1] if path else "", self._message(str(error)))
        return None

    def entry_faults(self, path: str, entries: Mapping[str, Any]) -> Iterator[Fault]:
        """For a field that is an object with any keys."""
        max_length = getattr(self.kind, "max_length", None)
        if max_length is not None and len(entries) > max_length:
            yield {"field": path, "message": f"must have at most {max_length} entries"}
            return
        for key, value in entries.items():
            violation = self.mismatch({key: value}) or self.forbidden_text([key, value])
            if violation is not None:
                shown = ellipsize(key, _MAX_KEY_CHARACTERS)
                yield {"field": f"{path}.{shown}", "message": violation.message}

    def forbidden_text(self, value: Any) -> _Violation | None:
        """For a value without a mismatch."""
        if self._without is None:
            return None
        if isinstance(value, str):
            forbidden = self._is_forbidden(value)
            return _Violation("", self._without.message) if forbidden else None
        for index, item in enumerate(value or ()):
            if self._is_forbidden(item):
                return _Violation(f"[{index}]", self._without.message)
        return None

    def _message(self, error: str) -> str:
        item = self.kind.item_type if isinstance(self.kind, inspect.ListType) else self.kind
        if isinstance(item, inspect.LiteralType):
            return f"must be one of {', '.join(map(str, item.values))}"
        if "matching regex" in error and self._matching:
            return self._matching.message
        if match := _BOUND_ERROR.match(error):
            kind, comparison, bound = match.groups()
            if kind in _UNITS and (comparison, bound) == (">=", "1"):
                return "must not be empty"
            verb, unit = _UNITS.get(kind, ("be", ""))
            return f"must {verb} {_COMPARISONS[comparison]} {bound.removesuffix('.0')}{unit}"
        if (match := _TYPE_ERROR.match(error)) and match[1] in _TYPE_MESSAGES:
            return _TYPE_MESSAGES[match[1]]
        return "is not valid"


@functools.cache
def _fields(type_: type) -> tuple[_Field, ...]:
    info = inspect.type_info(type_)
    assert isinstance(info, inspect.StructType | inspect.TypedDictType)
    hints = get_type_hints(type_, include_extras=True)
    return tuple(_Field(field, hints[field.name]) for field in info.fields)


def _unwrap(info: inspect.Type) -> tuple[inspect.Type, dict[str, Any]]:
    """A type without null and metadata, and the metadata's `extra`, that of list items included.

    For an object with any keys, `matching` is the rule for keys, and `without` for keys and values.
    """
    extra: dict[str, Any] = {}
    while True:
        if isinstance(info, inspect.Metadata):
            extra |= info.extra or {}
            info = info.type
        elif isinstance(info, inspect.UnionType):
            (info,) = (kind for kind in info.types if not isinstance(kind, inspect.NoneType))
        else:
            break
    if isinstance(info, inspect.ListType):
        extra |= _unwrap(info.item_type)[1]
    if isinstance(info, inspect.DictType):
        extra["matching"] = _unwrap(info.key_type)[1].get("matching")
        extra["without"] = _unwrap(info.value_type)[1].get("without")
    return info, extra


def _comparable(value: Any) -> Any:
    # JSON does not distinguish 1.0 from 1.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-_MAX_INTEGER, min(value, _MAX_INTEGER))
    return value
