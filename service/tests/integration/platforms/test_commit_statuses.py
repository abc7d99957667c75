"""Conformance suite for the results that adapters report, against the API descriptions."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.platforms.protocol import STATUS_NAME, CommitStatus, StatusState
from tests.support.forge_servers.github import GitHubServer
from tests.support.forge_servers.state import StatusRow
from tests.support.platform_adapters import (
    BRANCHES,
    PLATFORMS,
    PlatformHarness,
    platform_harness,
)

URL = "https://agentjobs.example.org/jobs/job_1"
# As each platform names the states.
STATES = {
    "github": {"pending": "pending", "neutral": "success", "failure": "failure"},
    "github-app": {"pending": "in_progress", "neutral": "neutral", "failure": "failure"},
    "gitlab": {"pending": "running", "neutral": "success", "failure": "failed"},
    "gitea": {"pending": "pending", "neutral": "success", "failure": "failure"},
}


@pytest.fixture(params=PLATFORMS)
async def harness(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path
) -> AsyncIterator[PlatformHarness]:
    async with platform_harness(request.param, tmp_path, template) as harness:
        if isinstance(harness.server, GitHubServer):
            harness.server.app.permissions["checks"] = "write"
        yield harness


async def report(harness: PlatformHarness, state: StatusState, description: str = "Done") -> None:
    branch = BRANCHES[0]
    status = CommitStatus(
        commit=harness.commits[branch],
        branch=branch,
        state=state,
        description=description,
        url=URL,
    )
    await harness.platform.set_status(harness.repo, status)


def latest(harness: PlatformHarness) -> StatusRow:
    return harness.row.statuses[-1]


async def test_a_result_is_reported_with_a_link_and_replaced_by_the_next(
    harness: PlatformHarness,
) -> None:
    states: tuple[StatusState, ...] = ("pending", "success", "pending", "failure", "neutral")
    for state in states:
        await report(harness, state)
        row = latest(harness)
        assert row.state == STATES[harness.kind].get(state, state)
        assert (row.commit, row.name) == (harness.commits[BRANCHES[0]], STATUS_NAME)
        assert (row.description, row.url) == ("Done", URL)
    if harness.kind == "github-app":
        # The check run is changed, not repeated.
        assert len(harness.row.statuses) == 1


async def test_reporting_the_same_result_twice_is_no_error(harness: PlatformHarness) -> None:
    states: tuple[StatusState, ...] = ("pending", "pending", "success", "success")
    for state in states:
        await report(harness, state)
    assert latest(harness).state == "success"


async def test_a_long_description_is_cut(harness: PlatformHarness) -> None:
    await report(harness, "success", "x" * 300)
    assert latest(harness).description.startswith("x" * 140)


async def test_a_renamed_repository_and_a_deleted_commit_are_handled(
    harness: PlatformHarness,
) -> None:
    harness.server.state.rename(harness.row, "acme/store")
    await report(harness, "success")
    assert latest(harness).state == "success"
    harness.commits[BRANCHES[0]] = "1" * 40
    error = await harness.error_of(report(harness, "success"))
    assert error.fault in {"gone", "refused"}


async def test_an_app_reports_a_commit_status_if_it_may_not_write_checks(
    tmp_path: Path, template: Path
) -> None:
    async with platform_harness("github-app", tmp_path, template) as harness:
        assert isinstance(harness.server, GitHubServer)
        permissions = harness.server.app.permissions
        # A token that was issued before the permission is granted.
        await harness.platform.repository(harness.repo)
        error = await harness.error_of(report(harness, "success"))
        assert error.fault == "denied"
        assert "“Checks: read and write” or “Commit statuses: read and write”" in str(error)
        missing = (await harness.platform.check()).missing_extras
        assert "Checks: read and write (to report the results of jobs on pull requests)" in missing
        permissions["statuses"] = "write"
        assert not any("report" in name for name in (await harness.platform.check()).missing_extras)
        await report(harness, "neutral")
        assert (latest(harness).state, latest(harness).is_check_run) == ("success", False)
