"""Paths of a Rust `use`: its groups taken apart, its `self` and `super` counted."""

import re
from collections.abc import Iterator, Sequence

_COMMENT = re.compile(rb"//[^\n]*+|/\*[^*]*+\*/")
_RENAMED = re.compile(rb"\sas\s+\w+")
_PIECE = re.compile(r"[{},]|[^{},]+")
# Longer paths lead to no other file; and groups within groups must not multiply a long one.
_MAX_PREFIX = 300


def expand(tree: bytes) -> Iterator[str]:
    """`a::{b, c::{self, d as e}}` is `a::b`, `a::c`, `a::c::d`."""
    plain = _RENAMED.sub(b"", _COMMENT.sub(b"", tree) if b"/" in tree else tree)
    text = b"".join(plain.split()).replace(b"r#", b"").decode(errors="replace")
    if "{" not in text:
        yield _whole(text)
        return
    prefixes, last = [""], ""
    for piece in _PIECE.findall(text):
        if piece not in "{},":
            last = piece
        elif piece == "{":
            prefixes.append((prefixes[-1] + last)[:_MAX_PREFIX])
            last = ""
        else:
            if last:
                yield _whole(prefixes[-1] + last)
            last = ""
            if piece == "}" and len(prefixes) > 1:
                prefixes.pop()
    if last:
        yield _whole(prefixes[-1] + last)


def _whole(path: str) -> str:
    return path.removesuffix("::self")


def seen_from_file(path: str, inline: Sequence[str]) -> str:
    """`super` leads out of a module within the file before it leads out of the file."""
    if not inline or not path.startswith(("self", "super")):
        return path
    names = path.split("::")
    outer = list(inline)
    if names[0] == "self":
        names = names[1:]
    while names and names[0] == "super" and outer:
        names = names[1:]
        outer.pop()
    if names and names[0] == "super":
        return "::".join(names)
    return "::".join(["self", *outer, *names])
