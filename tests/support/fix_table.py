"""The table that `make test SUITE=fixes` prints: the outcomes of all fix jobs by ecosystem."""

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.fix_corpus import FixJob, Outcome

_HEADINGS = ("ecosystem", "files", "jobs", "ready", "proven", "drafts", "failures")


@dataclass(frozen=True)
class Row:
    """What the table has of a job, in a form that a process of pytest can send to another."""

    project: str
    ecosystem: str
    files: str
    outcome: Outcome
    proven: bool
    reason: str


def row_of(job: FixJob) -> Row:
    reason = textwrap.shorten(job.reason, 200, placeholder=" …")
    return Row(job.project, job.ecosystem, ", ".join(job.files), job.outcome, job.proven, reason)


def markdown(rows: Iterable[Row]) -> str:
    rows = sorted(rows, key=lambda row: (row.ecosystem, row.files, row.project))
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.ecosystem, row.files), []).append(row)
    lines = [_line(_HEADINGS), _line(["---"] * 2 + ["---:"] * 5)]
    lines += [_line([*group, *_counts(same)]) for group, same in groups.items()]
    lines.append(_line(["**all**", "", *_counts(rows)]))
    for outcome, title in (("draft", "Drafts"), ("failed", "Failures")):
        reasons = [f"- {row.project}: {row.reason}" for row in rows if row.outcome == outcome]
        lines += ["", f"{title}:", "", *reasons] if reasons else []
    return "\n".join(lines) + "\n"


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """As JSON if the file's name ends with `.json`, otherwise as Markdown."""
    is_json = path.suffix == ".json"
    path.write_text(json.dumps(list(map(asdict, rows)), indent=1) if is_json else markdown(rows))


def _counts(rows: Sequence[Row]) -> list[str]:
    outcomes = [row.outcome for row in rows]
    counts = (
        len(rows),
        outcomes.count("ready"),
        sum(row.proven for row in rows),
        outcomes.count("draft"),
        outcomes.count("failed"),
    )
    return list(map(str, counts))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
