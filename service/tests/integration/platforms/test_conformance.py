"""Conformance suite for what jobs need from a platform: `local` and every other one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.platforms.protocol import PlatformError, RepoAddress
from tests.support.local_repository import CREDENTIAL
from tests.support.platform_adapters import (
    BRANCHES,
    LOCAL,
    PLATFORMS,
    AdapterHarness,
    PlatformHarness,
    local_platform_harness,
    platform_harness,
)


@pytest.fixture(params=[*LOCAL, *PLATFORMS])
async def harness(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path
) -> AsyncIterator[AdapterHarness]:
    kind: str = request.param
    if kind in PLATFORMS:
        async with platform_harness(kind, tmp_path, template) as platform:
            yield platform
        return
    engine = {"local-sqlite": "sqlite_url", "local-postgresql": "postgres_url"}[kind]
    async with local_platform_harness(request.getfixturevalue(engine), tmp_path, template) as local:
        yield local


async def test_a_pull_request_has_a_number_and_an_address(harness: AdapterHarness) -> None:
    pull = await harness.open()
    assert pull.number >= 1
    assert pull.url.startswith("https://")
    assert pull.url.endswith(f"/{pull.number}")
    assert not pull.draft
    assert pull.notes == ()
    existing = await harness.adapter.pull_of_branch(harness.repo, BRANCHES[0])
    assert existing is not None
    assert (existing.number, existing.title, existing.state) == (pull.number, "A change", "open")
    assert await harness.adapter.pull_of_branch(harness.repo, BRANCHES[1]) is None


async def test_two_branches_are_two_pull_requests(harness: AdapterHarness) -> None:
    first = await harness.open()
    second = await harness.open(BRANCHES[1])
    assert first.number != second.number
    assert first.url != second.url


async def test_a_second_request_for_a_branch_returns_the_same_pull_request(
    harness: AdapterHarness,
) -> None:
    first = await harness.open()
    assert await harness.open(title="Another title") == first


async def test_concurrent_requests_open_one_pull_request(harness: AdapterHarness) -> None:
    assert len(set(await asyncio.gather(*(harness.open() for _ in range(8))))) == 1


async def test_a_draft_is_opened_as_a_draft_and_adopted_as_one(harness: AdapterHarness) -> None:
    first = await harness.open(draft=True)
    assert first.draft
    assert await harness.open() == first
    existing = await harness.adapter.pull_of_branch(harness.repo, BRANCHES[0])
    assert existing is not None
    assert existing.number == first.number


async def test_a_pull_request_is_opened_whatever_title_the_agent_writes(
    harness: AdapterHarness,
) -> None:
    titles = ("", "\x00", "two\nlines", "x" * 5_000, "\ud800", "<script>", "Draft: no", "WIP: no")
    branches = [f"agentjobs/{at}" for at in range(len(titles))]
    harness.push(*branches)
    opened = [
        await harness.open(branch, title=title, body=f"{title} body \x00 \udfff" * 300)
        for branch, title in zip(branches, titles, strict=True)
    ]
    assert len({pull.number for pull in opened}) == len(titles)


async def test_a_branch_may_have_any_name_that_git_accepts(harness: AdapterHarness) -> None:
    branches = ("agentjobs/a+b%20c", "agentjobs/größe#1&state=closed", "agentjobs/q=ü;x'\"")
    harness.push(*branches)
    for branch in branches:
        opened = await harness.open(branch)
        existing = await harness.adapter.pull_of_branch(harness.repo, branch)
        assert existing is not None
        assert existing.number == opened.number


async def test_a_follow_up_needs_an_open_pull_request(harness: AdapterHarness) -> None:
    with pytest.raises(PlatformError, match="no longer has a pull request"):
        await harness.open(is_follow_up=True)
    first = await harness.open()
    assert await harness.open(is_follow_up=True) == first


async def test_a_missing_repository_is_a_forge_error(harness: AdapterHarness) -> None:
    for external_id in ("", "99999999"):
        gone = RepoAddress("acme", "acme/gone", "repo_gone", external_id)
        with pytest.raises(PlatformError):
            await harness.adapter.open_pull_request(gone, CREDENTIAL, harness.request())


async def test_the_credential_is_not_part_of_the_address(harness: AdapterHarness) -> None:
    async with harness.adapter.open_remote(harness.repo, "s3cret") as remote:
        shown = f"{remote.url} {remote!r}"
        assert remote.authorization is not None
    known = harness.known_secrets if isinstance(harness, PlatformHarness) else ["s3cret"]
    assert not [secret for secret in known if secret in shown]


@pytest.mark.parametrize("harness", LOCAL, indirect=True)
async def test_an_expired_credential_opens_no_pull_request(harness: AdapterHarness) -> None:
    with pytest.raises(PlatformError):
        await harness.adapter.open_pull_request(harness.repo, "ajt_old", harness.request())
    assert (await harness.open()).number == 1
