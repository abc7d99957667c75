"""Ranges of npm packages, as far as a fix needs them: is a version admitted, and what admits it."""

import re
from collections.abc import Callable, Iterator, Mapping
from operator import eq, ge, gt, le, lt

Key = tuple[tuple[int, int, int], tuple[tuple[int, int, str], ...]]
Bound = tuple[str, Key]

_PART = r"(?:\d{1,15}|[xX*])"
_SUFFIX = r"(?:-(?P<pre>[0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
_VERSION = re.compile(
    rf"v?(?P<major>{_PART})(?:\.(?P<minor>{_PART})(?:\.(?P<patch>{_PART}){_SUFFIX})?)?"
)
_HYPHEN = re.compile(r"\s*(\S+)\s+-\s+(\S+)\s*")
_SPACE_AFTER = re.compile(r"(\^|~>?|[<>]=?|=)\s+")
_COMPARATOR = re.compile(r"(\^|~>?|[<>]=?|=)?(.*)")
_ALIAS = re.compile(r"(npm:(?:@[^/@]+/)?[^/@]+@)(.*)", re.DOTALL)
_ORDER: Mapping[str, Callable[[Key, Key], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq}
# Sorts after every pre-release of the same numbers.
_RELEASE = ((2, 0, ""),)
_LEAST: tuple[tuple[int, int, str], ...] = ()


class _Unreadable(Exception):
    """A tag, an address, a path: no range."""


def admits(spec: str, version: str) -> bool | None:
    """None for what is no range: then the package manager is the one who knows."""
    _, spec = _split_alias(spec)
    try:
        key = _key(version)
        return any(_admits(list(_bounds(part)), key) for part in spec.split("||"))
    except _Unreadable:
        return None


def raised(spec: str, version: str) -> str:
    """The same range with as little changed as lets `version` in."""
    alias, spec = _split_alias(spec)
    if "||" in spec:
        return f"{alias}{spec.rstrip()} || ^{version}"
    found = _COMPARATOR.fullmatch(_SPACE_AFTER.sub(r"\1", spec.strip()))
    operator, asked = (found[1] or "", found[2]) if found else ("", "")
    parts = _VERSION.fullmatch(asked)
    if parts is None or operator in ("<", "<=", ">"):
        return f"{alias}^{version}"
    kept = _like(parts, version) if operator in ("", "=") else version
    return f"{alias}{operator}{kept}"


def exactly(spec: str, version: str) -> str:
    """The version alone, of the package that the range is about."""
    return f"{_split_alias(spec)[0]}{version}"


def _split_alias(spec: str) -> tuple[str, str]:
    found = _ALIAS.fullmatch(spec)
    return (found[1], found[2]) if found else ("", spec)


def _like(asked: re.Match[str], version: str) -> str:
    """As many numbers as were asked for, wildcards where they were: 4.17.x becomes 4.18.x."""
    if asked["patch"] and asked["patch"].isdigit():
        return version
    numbers = re.split("[-+]", version, maxsplit=1)[0].split(".")
    shown = [asked[name] for name in ("major", "minor", "patch") if asked[name]]
    return ".".join(
        number if part.isdigit() else part for part, number in zip(shown, numbers, strict=False)
    )


def _admits(bounds: list[Bound], key: Key) -> bool:
    if not all(_ORDER[operator](key, bound) for operator, bound in bounds):
        return False
    # A pre-release is wanted only by who names one of the same numbers.
    return key[1] == _RELEASE or any(
        bound[0] == key[0] and bound[1] not in (_RELEASE, _LEAST) for _, bound in bounds
    )


def _bounds(part: str) -> Iterator[Bound]:
    if hyphen := _HYPHEN.fullmatch(part):
        yield ">=", _low(_match(hyphen[1]))
        yield from _up_to(_match(hyphen[2]))
        return
    for word in _SPACE_AFTER.sub(r"\1", part).split():
        found = _COMPARATOR.fullmatch(word)
        assert found is not None, "everything is a comparator"
        yield from _comparator(found[1] or "", _match(found[2]))


def _comparator(operator: str, asked: re.Match[str]) -> Iterator[Bound]:
    count = len(_numbers(asked))
    if operator == "^":
        yield from _between(asked, _caret(asked))
    elif operator in ("~", "~>"):
        yield from _between(asked, min(count, 2))
    elif operator == "<=":
        yield from _up_to(asked)
    elif operator in ("", "=") and count < 3:
        yield from _between(asked, count)
    elif operator == ">" and count < 3:
        yield ">=", _above(asked, count)
    else:
        yield operator or "=", _low(asked) if operator != "<" or count == 3 else _edge(asked)


def _caret(asked: re.Match[str]) -> int:
    """How many leading numbers a compatible version shares."""
    numbers = _numbers(asked)
    return next((at for at, number in enumerate(numbers, 1) if number), len(numbers))


def _between(asked: re.Match[str], shared: int) -> Iterator[Bound]:
    yield ">=", _low(asked)
    if shared:
        yield "<", _above(asked, shared)


def _up_to(asked: re.Match[str]) -> Iterator[Bound]:
    count = len(_numbers(asked))
    if count == 3:
        yield "<=", _low(asked)
    elif count:
        yield "<", _above(asked, count)


def _above(asked: re.Match[str], shared: int) -> Key:
    """The least that differs in the first `shared` numbers; nothing is above a wildcard."""
    numbers = _numbers(asked)[:shared]
    if not numbers:
        return (10**16, 0, 0), _LEAST
    numbers[-1] += 1
    return _three(numbers), _LEAST


def _low(asked: re.Match[str]) -> Key:
    return _three(_numbers(asked)), _prerelease(asked["pre"]) if asked["pre"] else _RELEASE


def _edge(asked: re.Match[str]) -> Key:
    return _three(_numbers(asked)), _LEAST


def _numbers(asked: re.Match[str]) -> list[int]:
    numbers = []
    for name in ("major", "minor", "patch"):
        part = asked[name]
        if part is None or not part.isdigit():
            break
        numbers.append(int(part))
    return numbers


def _three(numbers: list[int]) -> tuple[int, int, int]:
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch


def _prerelease(text: str) -> tuple[tuple[int, int, str], ...]:
    return tuple(
        (0, int(part), "") if part.isdigit() and part.isascii() else (1, 0, part)
        for part in text[:100].split(".")
    )


def _match(text: str) -> re.Match[str]:
    found = _VERSION.fullmatch(text)
    if found is None:
        raise _Unreadable
    return found


def _key(version: str) -> Key:
    asked = _match(version.strip())
    if len(_numbers(asked)) != 3:
        raise _Unreadable
    return _low(asked)
