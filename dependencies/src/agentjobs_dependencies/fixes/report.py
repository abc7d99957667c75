"""The text of the pull request: advisories, changes, the reason for the version, how to undo it.

Names and texts come from repositories and advisories and must not become Markdown.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator

from agentjobs_dependencies.fixes.markdown import code, escape, one_line, printable
from agentjobs_dependencies.fixes.model import Advisory, Failure, Fix, Outcome

MAX_LISTED = 50
_MAX_REASON_CHARACTERS = 1500
_MAX_SUMMARY_CHARACTERS = 2000
_MAX_TITLE_VERSIONS = 3
_ADDRESS = re.compile(r"https?://[^\s<>()\[\]\"'`\\]+")


def report(outcome: Outcome) -> str:
    lines = [title(outcome.fixed), ""]
    for same in _by_upgrade(outcome.fixed):
        lines += [*_fix_section(same), ""]
    lines += _section("What changed", _changes(outcome))
    lines += _section("Not fixed", (_failure(failure) for failure in outcome.failed[:MAX_LISTED]))
    if outcome.fixed:
        lines += _section("How to undo it", _undo(outcome))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def draft_reasons(outcome: Outcome) -> str:
    """One reason a line."""
    reasons = (" ".join(printable(reason).split()) for reason in outcome.unproven)
    return "".join(f"{reason}\n" for reason in dict.fromkeys(reasons))


def title(fixes: list[Fix]) -> str:
    packages = sorted({fix.package for fix in fixes})
    if not packages:
        return "No vulnerable package could be updated"
    if len(packages) > 1:
        return f"Update {len(packages)} packages with known vulnerabilities"
    versions = list(dict.fromkeys(one_line(fix.new) for fix in fixes))
    names = [_best_name(advisory) for fix in fixes for advisory in fix.advisories]
    names_shown = list(dict.fromkeys(names))
    more = f" and {len(names_shown) - 1} more" if len(names_shown) > 1 else ""
    suffix = f" ({one_line(names_shown[0])}{more})" if names_shown else ""
    new = ", ".join(versions[:_MAX_TITLE_VERSIONS])
    new += " and others" if len(versions) > _MAX_TITLE_VERSIONS else ""
    return f"Update {one_line(packages[0])} to {new}{_location(fixes)}{suffix}"


def _location(fixes: list[Fix]) -> str:
    """Name the directory, because a repository may have many projects."""
    directories = {posixpath.dirname(fix.manifest) for fix in fixes}
    directory = next(iter(directories)) if len(directories) == 1 else ""
    return f" in {one_line(directory)}" if directory else ""


def _fix_section(same: list[Fix]) -> Iterator[str]:
    """One section for a package that several manifests have at the same version."""
    fix = same[0]
    yield f"### {escape(fix.package)} {escape(fix.old)} → {escape(fix.new)}"
    yield ""
    if len(same) > 1:
        more = f" and {len(same) - MAX_LISTED} more" if len(same) > MAX_LISTED else ""
        yield f"In {', '.join(code(fix.manifest) for fix in same[:MAX_LISTED])}{more}."
        yield ""
    if fix.parents:
        yield f"Required through {' → '.join(code(parent) for parent in fix.parents)}."
        yield ""
    yield from (_advisory(advisory) for advisory in fix.advisories[:MAX_LISTED])
    if len(fix.advisories) > MAX_LISTED:
        yield f"- … and {len(fix.advisories) - MAX_LISTED} more"
    if fix.why:
        yield ""
        yield f"Why {escape(fix.new)}: {escape(fix.why)}"


def _advisory(advisory: Advisory) -> str:
    name = escape(advisory.id)
    if _ADDRESS.fullmatch(advisory.url):
        name = f"[{name}]({advisory.url})"
    aliases = ", ".join(escape(alias) for alias in advisory.aliases)
    score = "" if advisory.score is None else f", CVSS {advisory.score:g}"
    severity = "unrated" if advisory.severity == "unknown" else escape(advisory.severity)
    parts = [f"- {name}{f' ({aliases})' if aliases else ''}: {severity}{score}"]
    if advisory.ranges:
        parts.append(f"affects {code(advisory.ranges)}")
    line = ", ".join(parts)
    summary = escape(advisory.summary, _MAX_SUMMARY_CHARACTERS)
    return f"{line}. {summary}".rstrip() if summary else f"{line}."


def _changes(outcome: Outcome) -> Iterator[str]:
    for fix in outcome.fixed[:MAX_LISTED]:
        yield f"- {code(fix.manifest)}: {code(fix.package)} {escape(fix.old)} → {escape(fix.new)}"
    if len(outcome.fixed) > MAX_LISTED:
        yield f"- … and {len(outcome.fixed) - MAX_LISTED} more"
    yield from (f"- {change}" for change in dict.fromkeys(outcome.changes))


def _failure(failure: Failure) -> str:
    fix = failure.fix
    first, *rest = failure.reason[:_MAX_REASON_CHARACTERS].splitlines() or [""]
    line = f"- {code(fix.package)} {escape(fix.old)} in {code(fix.manifest)}: {escape(first)}"
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


def _by_upgrade(fixes: Iterable[Fix]) -> Iterable[list[Fix]]:
    groups: dict[tuple[str, ...], list[Fix]] = {}
    for fix in fixes:
        groups.setdefault((fix.ecosystem, fix.package, fix.old, fix.new), []).append(fix)
    return groups.values()


def _best_name(advisory: Advisory) -> str:
    names = (advisory.id, *advisory.aliases)
    return next((name for name in names if name.startswith("CVE-")), advisory.id)
