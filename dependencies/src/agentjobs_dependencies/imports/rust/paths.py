"""Expands the groups of a Rust `use` and resolves its `self` and `super`."""

import re
from collections.abc import Iterator, Sequence

_COMMENT = re.compile(rb"//[^\n]*+|/\*[^*]*+\*/")
_RENAMED = re.compile(rb"\sas\s+\w+")
_ITEM = re.compile(r"[{},]|[^{},]+")
# Longer paths resolve to the same files, and nested groups must not multiply a long one.
_MAX_PREFIX = 300


def expand(tree: bytes) -> Iterator[str]:
    """`a::{b, c::{self, d as e}}` is `a::b`, `a::c`, `a::c::d`."""
    plain = _RENAMED.sub(b"", _COMMENT.sub(b"", tree) if b"/" in tree else tree)
    text = b"".join(plain.split()).replace(b"r#", b"").decode(errors="replace")
    if "{" not in text:
        yield _without_self(text)
        return
    prefixes, last = [""], ""
    for item in _ITEM.findall(text):
        if item not in "{},":
            last = item
        elif item == "{":
            prefixes.append((prefixes[-1] + last)[:_MAX_PREFIX])
            last = ""
        else:
            if last:
                yield _without_self(prefixes[-1] + last)
            last = ""
            if item == "}" and len(prefixes) > 1:
                prefixes.pop()
    if last:
        yield _without_self(prefixes[-1] + last)


def _without_self(path: str) -> str:
    return path.removesuffix("::self")


def relative_to_file(path: str, inline: Sequence[str]) -> str:
    """`super` leaves an inline module before it leaves the file."""
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
