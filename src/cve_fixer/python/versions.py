"""Versions of Python packages, as far as a fix needs them: is one admitted, and what admits it.

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


def normalized(name: str) -> str:
    """As PEP 503 has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def version_key(text: str) -> Key | None:
    """Something to compare by; None for what is no version."""
    found = _VERSION.fullmatch(text.strip())
    if not found:
        return None
    part = found.groupdict()
    has_post = part["post"] is not None or part["post1"] is not None
    pre = _NOT_PRE
    if part["phase"]:
        pre = (_PHASES.get(part["phase"].lower(), 2), int(part["pre"] or 0))
    elif part["dev"] and not has_post:
        pre = _ONLY_DEV
    post = int(part["post1"] or part["post2"] or 0) if has_post else -1
    dev = float(part["dev1"] or 0) if part["dev"] else float("inf")
    return (int(part["epoch"] or 0), _release(part["release"]), pre, post, dev)


def is_same(one: str, other: str) -> bool:
    return one == other or (version_key(one) is not None and version_key(one) == version_key(other))


def admits(specifier: str, version: str) -> bool:
    """True also for what cannot be read: then the package manager is the one who says no."""
    alternatives = [_clauses(part) for part in re.split(r"\|\|?", specifier)]
    return any(
        clauses is None or all(_admits(clause, version) for clause in clauses)
        for clauses in alternatives
    )


def raised(specifier: str, version: str) -> str | None:
    """The same specifier with as little changed as lets `version` in; None: no idea how."""
    clauses = _clauses(specifier)
    if not clauses or "|" in specifier:
        return None
    separator = ", " if ", " in specifier else ","
    result = separator.join(_raised(clause, version) for clause in clauses)
    return result if admits(result, version) else None


@dataclass(frozen=True, slots=True)
class _Clause:
    operator: str
    space: str
    version: str
    has_wildcard: bool

    def __str__(self) -> str:
        return self.at(f"{self.version}{'.*' if self.has_wildcard else ''}")

    def at(self, version: str, operator: str = "") -> str:
        return f"{operator or self.operator}{self.space}{version}"


def _clauses(text: str) -> list[_Clause] | None:
    clauses, position, text = [], 0, text.strip()
    while position < len(text):
        found = _CLAUSE.match(text, position)
        if not found:
            return None
        clauses.append(_Clause(found[1] or "", found[2], found[3], bool(found[4])))
        position = found.end()
    return clauses


def _admits(clause: _Clause, version: str) -> bool:
    mine, theirs = version_key(version), version_key(clause.version)
    if clause.version == "*" or mine is None or theirs is None:
        return True
    if clause.operator in ("^", "~", "~="):
        return mine >= theirs and _shares(version, clause.version, _fixed_parts(clause))
    if clause.operator in _ORDER:
        return _ORDER[clause.operator](mine, theirs)
    return _equals(clause, version) is (clause.operator != "!=")


def _equals(clause: _Clause, version: str) -> bool:
    if clause.has_wildcard:
        return _shares(version, clause.version, len(_numbers(clause.version)))
    return is_same(clause.version, version)


def _fixed_parts(clause: _Clause) -> int:
    """How many leading numbers a compatible version has in common with the clause's."""
    numbers = _numbers(clause.version)
    if clause.operator == "^":
        return next((at for at, number in enumerate(numbers, 1) if number), len(numbers))
    if clause.operator == "~=":
        return max(len(numbers) - 1, 1)
    return min(len(numbers), 2)


def _raised(clause: _Clause, version: str) -> str:
    numbers = _numbers(version)
    if clause.operator == ">=":
        return clause.at(version)
    if _admits(clause, version):
        return str(clause)
    if clause.operator in ("<", "<="):
        return clause.at(str(numbers[0] + 1), "<")
    if clause.has_wildcard:
        kept = _joined(numbers, len(_numbers(clause.version)))
        return clause.at(f"{kept}.*")
    if clause.operator in ("~", "~="):
        kept = _joined(numbers, max(len(_numbers(clause.version)), 2))
        beyond = "" if is_same(kept, version) else f",>={version}"
        return clause.at(kept + beyond)
    return clause.at(version)


def _shares(one: str, other: str, count: int) -> bool:
    return _padded(one, count) == _padded(other, count)


def _padded(version: str, count: int) -> list[int]:
    return (_numbers(version) + [0] * count)[:count]


def _joined(numbers: list[int], count: int) -> str:
    return ".".join(map(str, (numbers + [0] * count)[:count]))


def _numbers(version: str) -> list[int]:
    found = _VERSION.match(version)
    return [int(number) for number in found["release"].split(".")] if found else [0]


def _release(text: str) -> tuple[int, ...]:
    numbers = [int(number) for number in text.split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
