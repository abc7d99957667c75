"""The pull request's text: every advisory, what changed, why that version, how to undo it.

Names and texts come from repositories and advisories: none of it may become Markdown of ours.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator

from cve_fixer.model import Advisory, Failure, Fix, Outcome
from cve_fixer.text import code, one_line, plain, printable

LISTED = 50
_REASON_CHARACTERS = 1500
_ADDRESS = re.compile(r"https?://[^\s<>()\[\]\"'`\\]+")


def report(outcome: Outcome) -> str:
    lines = [title(outcome.made), ""]
    for fix in _merged(outcome.made):
        lines += [*_section_of(fix), ""]
    lines += _section("What changed", _changes(outcome))
    lines += _section("Not fixed", (_failure(failure) for failure in outcome.failed[:LISTED]))
    if outcome.made:
        lines += _section("How to undo it", _undo(outcome))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def title(made: list[Fix]) -> str:
    packages = sorted({(fix.package, fix.new) for fix in made})
    if not packages:
        return "No vulnerable package could be updated"
    if len(packages) > 1:
        return f"Update {len(packages)} packages with known vulnerabilities"
    package, new = packages[0]
    names = [_best_name(advisory) for fix in made for advisory in fix.advisories]
    shown = list(dict.fromkeys(names))
    more = f" and {len(shown) - 1} more" if len(shown) > 1 else ""
    of = f" ({one_line(shown[0])}{more})" if shown else ""
    return f"Update {one_line(package)} to {one_line(new)}{_place(made)}{of}"


def _place(made: list[Fix]) -> str:
    """A repository may hold many projects, each with a pull request of its own."""
    directories = {posixpath.dirname(fix.manifest) for fix in made}
    only = next(iter(directories)) if len(directories) == 1 else ""
    return f" in {one_line(only)}" if only else ""


def _section_of(fix: Fix) -> Iterator[str]:
    yield f"### {plain(fix.package)} {plain(fix.old)} → {plain(fix.new)}"
    yield ""
    if fix.parents:
        yield f"Asked for through {' → '.join(code(parent) for parent in fix.parents)}."
        yield ""
    yield from (_advisory(advisory) for advisory in fix.advisories[:LISTED])
    if len(fix.advisories) > LISTED:
        yield f"- … and {len(fix.advisories) - LISTED} more"
    if fix.why:
        yield ""
        yield f"Why {plain(fix.new)}: {plain(fix.why)}"


def _advisory(advisory: Advisory) -> str:
    name = plain(advisory.id)
    if _ADDRESS.fullmatch(advisory.url):
        name = f"[{name}]({advisory.url})"
    aliases = ", ".join(plain(alias) for alias in advisory.aliases)
    score = "" if advisory.score is None else f", CVSS {advisory.score:g}"
    parts = [f"- {name}{f' ({aliases})' if aliases else ''}: {plain(advisory.severity)}{score}"]
    if advisory.ranges:
        parts.append(f"affects {code(advisory.ranges)}")
    line = ", ".join(parts)
    return f"{line}. {plain(advisory.summary)}".rstrip() if advisory.summary else f"{line}."


def _changes(outcome: Outcome) -> Iterator[str]:
    for fix in outcome.made[:LISTED]:
        yield f"- {code(fix.manifest)}: {code(fix.package)} {plain(fix.old)} → {plain(fix.new)}"
    if len(outcome.made) > LISTED:
        yield f"- … and {len(outcome.made) - LISTED} more"
    yield from (f"- {change}" for change in dict.fromkeys(outcome.changes))


def _failure(failure: Failure) -> str:
    fix = failure.fix
    first, *rest = failure.reason[:_REASON_CHARACTERS].splitlines() or [""]
    line = f"- {code(fix.package)} {plain(fix.old)} in {code(fix.manifest)}: {plain(first)}"
    if not rest:
        return line
    fence = "~" * (3 + max((len(run) for run in re.findall("~+", failure.reason)), default=0))
    rows = (fence, *(printable(row) for row in rest), fence)
    return "\n".join([line, "", *(f"  {row}" for row in rows)])


def _undo(outcome: Outcome) -> Iterator[str]:
    yield "- Revert the commit: `git revert <commit>` (`-m 1` if it was merged)."
    yield from (f"- {step}" for step in dict.fromkeys(outcome.undo))


def _section(heading: str, rows: Iterable[str]) -> list[str]:
    listed = list(rows)
    return [f"### {heading}", "", *listed, ""] if listed else []


def _merged(made: Iterable[Fix]) -> list[Fix]:
    """One section for a package that several manifests had at the same version."""
    return list({(fix.ecosystem, fix.package, fix.old, fix.new): fix for fix in made}.values())


def _best_name(advisory: Advisory) -> str:
    names = (advisory.id, *advisory.aliases)
    return next((name for name in names if name.startswith("CVE-")), advisory.id)
