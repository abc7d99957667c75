"""Names and version specifiers of Python packages: whether one allows a version, how to raise it.

Reads the specifiers of PEP 440 and Poetry's own (`^1.2`, `~1.2`, `1.2`). Edits no file.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

from agentjobs_dependencies.versions.order import version_key

_SEPARATORS = re.compile(r"[-_.]+")
_RELEASE = re.compile(r"v?(?:\d+!)?(\d+(?:\.\d+)*)")
_CLAUSE = re.compile(
    r"\s*(\^|~=|~|===|==|!=|<=|>=|=|<|>)?(\s*)(\d[^\s,*]*?|\*)((?:\.\*)?)(?:\s*,|\s+|$)"
)
_ORDER: Mapping[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def normalize_name(name: str) -> str:
    """The normalized name of a package (PEP 503)."""
    return _SEPARATORS.sub("-", name).lower()


def is_same(first: str, second: str) -> bool:
    key = _key(first)
    return first == second or (key is not None and key == _key(second))


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
    key, bound = _key(version), _key(clause.version)
    if clause.version == "*" or key is None or bound is None:
        return True
    if clause.operator in ("^", "~", "~="):
        return bool(key >= bound) and _has_same_prefix(
            version, clause.version, _fixed_parts(clause)
        )
    if clause.operator in _ORDER:
        return bool(_ORDER[clause.operator](key, bound))
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
    match = _RELEASE.match(version)
    return [int(number) for number in match[1].split(".")] if match else [0]


def _key(version: str) -> Any:
    return version_key("PyPI", version)
