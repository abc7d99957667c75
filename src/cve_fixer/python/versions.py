"""Python version specifiers: whether one allows a version, and how to raise it.

Reads the specifiers of PEP 440 and Poetry's own (`^1.2`, `~1.2`, `1.2`). Edits no file.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt

Key = tuple[int, tuple[int, ...], tuple[int, int], int, float]

_VERSION = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<phase>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pre>\d*))?"
    r"(?:-(?P<post1>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post2>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev1>\d*))?(?:\+[a-z0-9._-]+)?",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"\s*(\^|~=|~|===|==|!=|<=|>=|=|<|>)?(\s*)(\d[^\s,*]*?|\*)((?:\.\*)?)(?:\s*,|\s+|$)"
)
_ORDER: Mapping[str, Callable[[Key, Key], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_PHASES = {"a": 0, "alpha": 0, "b": 1, "beta": 1}
_NOT_PRE, _ONLY_DEV = (9, 0), (-1, 0)


def normalize(name: str) -> str:
    """Normalize a name according to PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def version_key(text: str) -> Key | None:
    """A sort key; None for an invalid version."""
    match = _VERSION.fullmatch(text.strip())
    if not match:
        return None
    part = match.groupdict()
    has_post = part["post"] is not None or part["post1"] is not None
    pre = _NOT_PRE
    if part["phase"]:
        pre = (_PHASES.get(part["phase"].lower(), 2), int(part["pre"] or 0))
    elif part["dev"] and not has_post:
        pre = _ONLY_DEV
    post = int(part["post1"] or part["post2"] or 0) if has_post else -1
    dev = float(part["dev1"] or 0) if part["dev"] else float("inf")
    return (int(part["epoch"] or 0), _release(part["release"]), pre, post, dev)


def is_same(first: str, second: str) -> bool:
    return first == second or (
        version_key(first) is not None and version_key(first) == version_key(second)
    )


def allows(specifier: str, version: str) -> bool:
    """True if it cannot be parsed; then the package manager decides."""
    alternatives = [_clauses(part) for part in re.split(r"\|\|?", specifier)]
    return any(
        clauses is None or all(_allows(clause, version) for clause in clauses)
        for clauses in alternatives
    )


def raise_specifier(specifier: str, version: str) -> str | None:
    """Change the specifier as little as possible so that it allows `version`; None if unknown."""
    clauses = _clauses(specifier)
    if not clauses or "|" in specifier:
        return None
    separator = ", " if ", " in specifier else ","
    result = separator.join(_raise_clause(clause, version) for clause in clauses)
    return result if allows(result, version) else None


@dataclass(frozen=True, slots=True)
class _Clause:
    operator: str
    space: str
    version: str
    has_wildcard: bool

    def __str__(self) -> str:
        return self.with_version(f"{self.version}{'.*' if self.has_wildcard else ''}")

    def with_version(self, version: str, operator: str = "") -> str:
        return f"{operator or self.operator}{self.space}{version}"


def _clauses(text: str) -> list[_Clause] | None:
    clauses, position, text = [], 0, text.strip()
    while position < len(text):
        match = _CLAUSE.match(text, position)
        if not match:
            return None
        clauses.append(_Clause(match[1] or "", match[2], match[3], bool(match[4])))
        position = match.end()
    return clauses


def _allows(clause: _Clause, version: str) -> bool:
    key, bound = version_key(version), version_key(clause.version)
    if clause.version == "*" or key is None or bound is None:
        return True
    if clause.operator in ("^", "~", "~="):
        return key >= bound and _has_same_prefix(version, clause.version, _fixed_parts(clause))
    if clause.operator in _ORDER:
        return _ORDER[clause.operator](key, bound)
    return _equals(clause, version) is (clause.operator != "!=")


def _equals(clause: _Clause, version: str) -> bool:
    if clause.has_wildcard:
        return _has_same_prefix(version, clause.version, len(_numbers(clause.version)))
    return is_same(clause.version, version)


def _fixed_parts(clause: _Clause) -> int:
    """The number of leading numbers that a compatible version shares."""
    numbers = _numbers(clause.version)
    if clause.operator == "^":
        return next(
            (with_version for with_version, number in enumerate(numbers, 1) if number), len(numbers)
        )
    if clause.operator == "~=":
        return max(len(numbers) - 1, 1)
    return min(len(numbers), 2)


def _raise_clause(clause: _Clause, version: str) -> str:
    numbers = _numbers(version)
    if clause.operator == ">=":
        return clause.with_version(version)
    if _allows(clause, version):
        return str(clause)
    if clause.operator in ("<", "<="):
        return clause.with_version(str(numbers[0] + 1), "<")
    if clause.has_wildcard:
        prefix = _join_numbers(numbers, len(_numbers(clause.version)))
        return clause.with_version(f"{prefix}.*")
    if clause.operator in ("~", "~="):
        prefix = _join_numbers(numbers, max(len(_numbers(clause.version)), 2))
        minimum = "" if is_same(prefix, version) else f",>={version}"
        return clause.with_version(prefix + minimum)
    return clause.with_version(version)


def _has_same_prefix(first: str, second: str, count: int) -> bool:
    return _pad(first, count) == _pad(second, count)


def _pad(version: str, count: int) -> list[int]:
    return (_numbers(version) + [0] * count)[:count]


def _join_numbers(numbers: list[int], count: int) -> str:
    return ".".join(map(str, (numbers + [0] * count)[:count]))


def _numbers(version: str) -> list[int]:
    match = _VERSION.match(version)
    return [int(number) for number in match["release"].split(".")] if match else [0]


def _release(text: str) -> tuple[int, ...]:
    numbers = [int(number) for number in text.split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
