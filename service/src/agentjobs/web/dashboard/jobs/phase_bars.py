"""The phases of a job's runs: each run as a bar, and as a list that says the same. Pure."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec
from markupsafe import Markup

from agentjobs.jobs.phases import PhaseView
from agentjobs.jobs.states import CANCELLED, FAILED, JobStatus
from agentjobs.web.dashboard.plots.share_bar import Segment, share_bar
from agentjobs.web.dashboard.text_filters import duration

# Short phases stay visible.
_MIN_SHARE = 0.015
_TITLES: Mapping[str, str] = {
    "queued": "Queued",
    "prepare": "Preparation",
    "environment": "Environment",
    "agent": "Agent",
    "checks": "Checks",
    "push": "Push",
    "publishing": "Waiting to publish",
    "pull_request": "Pull request",
}
_CLASSES: Mapping[str, str] = {
    "queued": "s-quiet",
    "prepare": "s-5",
    "environment": "s-4",
    "agent": "s-1",
    "checks": "s-3",
    "push": "s-2",
    "publishing": "s-quiet",
    "pull_request": "s-6",
}
_INTERRUPTIONS: Mapping[str, str] = {
    "worker_lost": "worker lost",
    "worker_stopped": "worker stopped",
    "sandbox_lost": "sandbox lost",
    "disk_full": "disk full",
    "unreachable": "no response",
    "environment_building": "environment not ready",
    "kept": "not published yet",
}
_ENDS: Mapping[JobStatus, str] = {FAILED: "failed", CANCELLED: "cancelled"}


class PhaseLine(msgspec.Struct, frozen=True):
    """`end` says why the run ended with this phase; empty if it went on or succeeded."""

    title: str
    css_class: str
    elapsed_ms: int
    is_current: bool
    end: str


class RunBar(msgspec.Struct, frozen=True):
    number: int
    svg: Markup
    lines: tuple[PhaseLine, ...]


def phase_title(name: str) -> str:
    """Also of a phase that a later version adds."""
    return _TITLES.get(name) or name.replace("_", " ").capitalize()


def run_bars(phases: Sequence[PhaseView], status: JobStatus) -> list[RunBar]:
    """The latest run first; none while the job only waits, and for a job of an earlier version."""
    if all(phase.phase == "queued" for phase in phases):
        return []
    runs = [tuple(run) for _, run in groupby(phases, lambda phase: phase.attempt)]
    bars = [_run_bar(run, _ENDS.get(status, "") if run is runs[-1] else "") for run in runs]
    return bars[::-1]


def _run_bar(phases: Sequence[PhaseView], end: str) -> RunBar:
    lines = tuple(_line(phase, end if phase is phases[-1] else "") for phase in phases)
    segments = [
        Segment(
            f"{line.css_class} now" if line.is_current else line.css_class,
            line.elapsed_ms,
            " ".join([f"{line.title}: {duration(line.elapsed_ms)}", *line.end.split()]),
        )
        for line in lines
    ]
    return RunBar(phases[0].attempt, share_bar(segments, min_share=_MIN_SHARE), lines)


def _line(phase: PhaseView, end: str) -> PhaseLine:
    if phase.interruption is not None:
        code = phase.interruption
        end = _INTERRUPTIONS.get(code) or code.replace("_", " ")
    return PhaseLine(
        phase_title(phase.phase),
        "s-bad" if end == "failed" else _CLASSES.get(phase.phase, "s-quiet"),
        phase.elapsed_ms,
        phase.ended_at is None,
        end,
    )
