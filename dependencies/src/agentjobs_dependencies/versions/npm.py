"""npm version ranges: whether one allows a version, and how to raise it."""

import re
from collections.abc import Callable, Iterator, Mapping
from operator import eq, ge, gt, le, lt

from agentjobs_dependencies.versions.order import Key, version_key

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
# Instead of the state of a release in a key: sorts before every pre-release with the same numbers.
_LOWEST = -1
_MAX_PRERELEASE = 75


class _NotARange(Exception):
    """Raised for a tag, an address or a path instead of a range."""


def allows(spec: str, version: str) -> bool | None:
    """None if it is not a range; then the package manager decides."""
    _, spec = _split_alias(spec)
    try:
        key = _key(version)
        return any(_allows(list(_bounds(part)), key) for part in spec.split("||"))
    except _NotARange:
        return None


def raise_range(spec: str, version: str) -> str:
    """Change the range as little as possible so that it allows `version`."""
    alias, spec = _split_alias(spec)
    if "||" in spec:
        return f"{alias}{spec.rstrip()} || ^{version}"
    match = _COMPARATOR.fullmatch(_SPACE_AFTER.sub(r"\1", spec.strip()))
    operator, bound = (match[1] or "", match[2]) if match else ("", "")
    parts = _VERSION.fullmatch(bound)
    if parts is None or operator in ("<", "<=", ">"):
        return f"{alias}^{version}"
    new_version = _keep_form(parts, version) if operator in ("", "=") else version
    return f"{alias}{operator}{new_version}"


def pin_exactly(spec: str, version: str) -> str:
    """The exact version, with the range's alias."""
    return f"{_split_alias(spec)[0]}{version}"


def _split_alias(spec: str) -> tuple[str, str]:
    match = _ALIAS.fullmatch(spec)
    return (match[1], match[2]) if match else ("", spec)


def _keep_form(bound: re.Match[str], version: str) -> str:
    """Keep the number of parts and the wildcards: 4.17.x becomes 4.18.x."""
    if bound["patch"] and bound["patch"].isdigit():
        return version
    numbers = re.split("[-+]", version, maxsplit=1)[0].split(".")
    parts_given = [bound[name] for name in ("major", "minor", "patch") if bound[name]]
    return ".".join(
        number if part.isdigit() else part
        for part, number in zip(parts_given, numbers, strict=False)
    )


def _allows(bounds: list[Bound], key: Key) -> bool:
    if not all(_ORDER[operator](key, bound) for operator, bound in bounds):
        return False
    # A range allows a pre-release only if it names one with the same numbers.
    return key[1] == 1 or any(bound[:2] == key[:2] for _, bound in bounds)


def _bounds(part: str) -> Iterator[Bound]:
    if hyphen := _HYPHEN.fullmatch(part):
        yield ">=", _low(_parse(hyphen[1]))
        yield from _up_to(_parse(hyphen[2]))
        return
    for comparator in _SPACE_AFTER.sub(r"\1", part).split():
        match = _COMPARATOR.fullmatch(comparator)
        assert match is not None, "matches anything"
        yield from _comparator(match[1] or "", _parse(match[2]))


def _comparator(operator: str, bound: re.Match[str]) -> Iterator[Bound]:
    count = len(_numbers(bound))
    if operator == "^":
        yield from _between(bound, _caret(bound))
    elif operator in ("~", "~>"):
        yield from _between(bound, min(count, 2))
    elif operator == "<=":
        yield from _up_to(bound)
    elif operator in ("", "=") and count < 3:
        yield from _between(bound, count)
    elif operator == ">" and count < 3:
        yield ">=", _above(bound, count)
    else:
        yield operator or "=", _low(bound) if operator != "<" or count == 3 else _edge(bound)


def _caret(bound: re.Match[str]) -> int:
    """The number of leading numbers that a compatible version shares."""
    numbers = _numbers(bound)
    return next((at for at, number in enumerate(numbers, 1) if number), len(numbers))


def _between(bound: re.Match[str], shared: int) -> Iterator[Bound]:
    yield ">=", _low(bound)
    if shared:
        yield "<", _above(bound, shared)


def _up_to(bound: re.Match[str]) -> Iterator[Bound]:
    count = len(_numbers(bound))
    if count == 3:
        yield "<=", _low(bound)
    elif count:
        yield "<", _above(bound, count)


def _above(bound: re.Match[str], shared: int) -> Key:
    """The lowest version that differs in the first `shared` numbers; none for a wildcard."""
    numbers = _numbers(bound)[:shared]
    if not numbers:
        return (10**16,), _LOWEST
    numbers[-1] += 1
    return _release_key(numbers)[0], _LOWEST


def _low(bound: re.Match[str]) -> Key:
    return _release_key(_numbers(bound), bound["pre"])


def _edge(bound: re.Match[str]) -> Key:
    return _release_key(_numbers(bound))[0], _LOWEST


def _numbers(bound: re.Match[str]) -> list[int]:
    numbers = []
    for name in ("major", "minor", "patch"):
        part = bound[name]
        if part is None or not part.isdigit():
            break
        numbers.append(int(part))
    return numbers


def _release_key(numbers: list[int], prerelease: str | None = None) -> Key:
    text = ".".join(map(str, (*numbers, 0, 0, 0)[:3]))
    return version_key("npm", f"{text}-{prerelease[:_MAX_PRERELEASE]}" if prerelease else text)


def _parse(text: str) -> re.Match[str]:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise _NotARange
    return match


def _key(version: str) -> Key:
    bound = _parse(version.strip())
    if len(_numbers(bound)) != 3:
        raise _NotARange
    return _low(bound)
