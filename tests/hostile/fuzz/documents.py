"""Strategies for hostile documents: valid ones, changed in their structure and in their bytes.

A change is data (its kind, place and length), so a failing document shrinks to its few changes.
"""

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

_PLACES = 2**16

# Inserted into any document, or put in the place of one of its tokens.
TOKENS: tuple[bytes, ...] = (
    *(b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xff\xfe", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80"),
    *(b"\n", b"\r", b"\r\n", b"\t", b" ", b"\x0b", b"\x85", b"\xe2\x80\xa8", b"\x1b[", b"\x7f"),
    *(b'"', b"'", b"`", b"\\", b"\\u0000", b"\\ud800", b"%00", b"%ff", b"&#0;", b"<!--", b"]]>"),
    *(b"[", b"]", b"{", b"}", b"(", b")", b"<", b">", b"#", b"//", b"/*", b"*/", b"*", b"**"),
    *(b":", b"::", b";", b",", b".", b"..", b"../", b"/", b"=", b"==", b"-", b"--", b"+", b"@"),
    *(b"!", b"&", b"|", b"$", b"${", b"?", b"~", b"^", b"_", b"null", b"true", b"NaN", b"inf"),
    *(b"0", b"-1", b"1e999", b"0x" + b"f" * 5_000, b"9" * 20, b"9" * 400, b"9" * 5_000),
    *(b"a" * 300, b"a" * 9_000, b" " * 3_000, b"\n" * 3_000, b"." * 3_000, b"-" * 3_000),
    *(b"[" * 70, b"[" * 990, b"[" * 3_000, b"{" * 990, b"(" * 990, b"<a>" * 990, b'{"a":' * 990),
    *("\u202e".encode(), "\u0130".encode(), "\U00010000".encode(), "\u0661".encode()),
    *("\u00b2".encode(), "\ufeff".encode(), "\u200b".encode(), "\ufdd0".encode()),
)
_WORD = re.compile(rb"\w+|\s+|.", re.DOTALL)


class Inputs(NamedTuple):
    """`strategy` shrinks what fails; `sample` makes ten times as many inputs in the same time."""

    strategy: SearchStrategy[Any]
    sample: Callable[[Random], Any]

    def map(self, convert: Callable[[Any], Any]) -> "Inputs":
        return Inputs(self.strategy.map(convert), lambda random: convert(self.sample(random)))


class Change(NamedTuple):
    kind: str
    at: int
    length: int
    token: int


def _changes(kinds: Sequence[str], max_size: int) -> SearchStrategy[list[Change]]:
    change = st.builds(
        Change,
        st.sampled_from(kinds),
        st.integers(0, _PLACES - 1),
        st.integers(0, 64) | st.integers(0, _PLACES - 1),
        st.integers(0, _PLACES - 1),
    )
    return st.lists(change, max_size=max_size)


def _sample_changes(random: Random, kinds: Sequence[str], max_size: int) -> list[Change]:
    return [
        Change(
            random.choice(kinds),
            random.randrange(_PLACES),
            random.randrange(random.choice((8, 64, _PLACES))),
            random.randrange(_PLACES),
        )
        for _ in range(random.randint(0, max_size))
    ]


_BYTE_KINDS = ("token", "insert", "cut", "truncate", "repeat", "splice", "swap", "nest", "flip")


def documents(*seeds: bytes, tokens: Sequence[bytes] = ()) -> Inputs:
    """`tokens` are significant for the parser, in addition to those for any."""
    every_token = (*tokens, *tokens, *TOKENS)

    def build(seed: bytes, made: list[Change]) -> bytes:
        document = seed
        for change in made:
            document = _change_bytes(document, change, seeds, every_token)
        return document

    return Inputs(
        st.builds(build, st.sampled_from(seeds), _changes(_BYTE_KINDS, 5)),
        lambda random: build(random.choice(seeds), _sample_changes(random, _BYTE_KINDS, 5)),
    )


def texts(*seeds: str, tokens: Sequence[str] = ()) -> Inputs:
    """Text with lone surrogates in the place of invalid bytes."""
    encoded = documents(*map(str.encode, seeds), tokens=[token.encode() for token in tokens])
    return encoded.map(lambda document: document.decode("utf-8", "surrogateescape"))


def _change_bytes(  # noqa: PLR0911 - a table of changes
    document: bytes, change: Change, seeds: Sequence[bytes], tokens: Sequence[bytes]
) -> bytes:
    at = change.at * (len(document) + 1) // _PLACES
    end = min(len(document), at + change.length)
    token = tokens[change.token % len(tokens)]
    match change.kind:
        case "insert":
            return document[:at] + token + document[at:]
        case "token":
            word = _WORD.match(document, at)
            return document[:at] + token + document[word.end() if word else at :]
        case "cut":
            return document[:at] + document[end:]
        case "truncate":
            return document[:at]
        case "repeat":
            count = min(2 + change.token % 64, 1 + 100_000 // (end - at + 1))
            return document[:at] + document[at:end] * count + document[end:]
        case "splice":
            other = seeds[change.token % len(seeds)]
            return document[:at] + other[change.length % (len(other) + 1) :]
        case "swap":
            middle = (at + end) // 2
            return document[:at] + document[middle:end] + document[at:middle] + document[end:]
        case "nest":
            depth = (2, 16, 70, 990)[change.token % 4]
            opening, closing = ((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"))[change.token % 3]
            return document[:at] + opening * depth + document[at:end] + closing * depth
        case _:
            flipped = document[at : at + 1] or b"\0"
            byte = flipped[0] ^ (1 << change.token % 8)
            return document[:at] + bytes([byte]) + document[at + 1 :]


class _Raw(NamedTuple):
    """JSON that `json.dumps` cannot write."""

    text: str


def _deep(depth: int, opening: str = "[", closing: str = "]") -> _Raw:
    return _Raw(opening * depth + "0" * (opening != "[") + closing * depth)


HOSTILE_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 0.5, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**400),
    *(_Raw("9" * 5_000), _Raw("1e999"), _Raw("-0.0"), _Raw("1e-999"), _Raw('"\\ud800"')),
    *("", "\0", "a\0b", " ", "\n", "a" * 300, "a" * 9_000, " " * 3_000, "\n" * 3_000, "-" * 3_000),
    *("9" * 20, "9" * 5_000, "-1", "1.0", "1e999", "\u202e", "\U00010000", "\u0661", "\ufdd0"),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999-23:59", "2024-02-30T00:00:00Z"),
    *("..", "../../etc/passwd", "/", "\\", "https://[", "http://a:99999/", "file:///", "%zz%00"),
    *("<!--", "```", "`" * 3_000, "*", "**", "[" * 1_000, "(" * 1_000, "@" + "a/" * 1_000),
    *([], {}, [[]], [{}], [None], [0] * 3_000, [""] * 3_000, [[]] * 3_000, {"": ""}, {"\0": 0}),
    *({"a" * 9_000: [0] * 1_000}, {str(number): number for number in range(1_000)}),
    *(_deep(30), _deep(70), _deep(200), _deep(900), _deep(990), _deep(2_000)),
    *(_deep(70, '{"content":[', "]}"), _deep(300, '{"a":', "}")),
)

_TREE_KINDS = ("replace", "replace", "delete", "copy", "rename", "wrap", "multiply")


def json_documents(*seeds: Any) -> Inputs:
    """Values with changed nodes; a few documents have changed bytes as well."""

    def build(seed: Any, tree_changes: list[Change], byte_changes: list[Change]) -> bytes:
        value = json.loads(json.dumps(seed))
        for change in tree_changes:
            value = _change_value(value, change)
        document = _encode(value)
        for change in byte_changes:
            document = _change_bytes(document, change, (document,), TOKENS)
        return document

    def sample(random: Random) -> bytes:
        byte_changes = _sample_changes(random, _BYTE_KINDS, 3) if random.random() < 0.3 else []
        return build(random.choice(seeds), _sample_changes(random, _TREE_KINDS, 4), byte_changes)

    return Inputs(
        st.builds(
            build,
            st.sampled_from(seeds),
            _changes(_TREE_KINDS, 4),
            st.just([]) | _changes(_BYTE_KINDS, 3),
        ),
        sample,
    )


def _change_value(root: Any, change: Change) -> Any:
    holder: list[Any] = [root]
    places: list[tuple[Any, Any]] = [(holder, 0)]
    for container, key in places:  # Grows during the loop.
        value = container[key]
        if len(places) > 5_000:
            break
        if isinstance(value, dict):
            places += [(value, name) for name in value]
        elif isinstance(value, list):
            places += [(value, index) for index in range(len(value))]
    container, key = places[change.at * len(places) // _PLACES]
    # Copied, because a later change may be inside of it.
    hostile = _copy(HOSTILE_VALUES[change.token % len(HOSTILE_VALUES)])
    match change.kind:
        case "replace":
            container[key] = hostile
        case "delete":
            if container is not holder:
                del container[key]
        case "copy":
            other_container, other_key = places[change.length % len(places)]
            container[key] = _copy(other_container[other_key])
        case "rename" if isinstance(container, dict):
            container[str(hostile)[:9_000]] = container.pop(key)
        case "multiply" if isinstance(container, list) and container is not holder:
            container[key : key + 1] = [container[key]] * (change.length % 300)
        case _:
            container[key] = [container[key]] if change.token % 2 else {"a": container[key]}
    return holder[0]


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if type(value) is list else value


def _encode(value: Any) -> bytes:
    """Named tuples are written as they are, everything else as JSON."""
    match value:
        case _Raw(text):
            return text.encode()
        case dict():
            parts = (json.dumps(name).encode() + b":" + _encode(v) for name, v in value.items())
            return b"{" + b",".join(parts) + b"}"
        case list():
            return b"[" + b",".join(map(_encode, value)) + b"]"
        case _:
            return json.dumps(value).encode()
