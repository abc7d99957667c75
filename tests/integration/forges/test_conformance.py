"""Conformance suite for what jobs need from a forge: the local forge and every platform."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.forges.protocol import ForgeError, RepoAddress
from tests.support.forge_adapters import (
    BRANCHES,
    LOCAL,
    PLATFORMS,
    Bench,
    PlatformBench,
    local_bench,
    make_template,
    platform_bench,
)
from tests.support.local_repository import CREDENTIAL


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture(params=[*LOCAL, *PLATFORMS])
async def bench(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path
) -> AsyncIterator[Bench]:
    kind: str = request.param
    if kind in PLATFORMS:
        async with platform_bench(kind, tmp_path, template) as platform:
            yield platform
        return
    engine = {"local-sqlite": "sqlite_url", "local-postgresql": "postgres_url"}[kind]
    async with local_bench(request.getfixturevalue(engine), tmp_path, template) as local:
        yield local


async def test_a_pull_request_has_a_number_and_an_address(bench: Bench) -> None:
    pull = await bench.open()
    assert pull.number >= 1
    assert pull.url.startswith("https://")
    assert pull.url.endswith(f"/{pull.number}")
    assert not pull.draft
    assert pull.notes == ()
    existing = await bench.forge.pull_of_branch(bench.repo, BRANCHES[0])
    assert existing is not None
    assert (existing.number, existing.title, existing.state) == (pull.number, "A change", "open")
    assert await bench.forge.pull_of_branch(bench.repo, BRANCHES[1]) is None


async def test_two_branches_are_two_pull_requests(bench: Bench) -> None:
    first = await bench.open()
    second = await bench.open(BRANCHES[1])
    assert first.number != second.number
    assert first.url != second.url


async def test_a_second_request_for_a_branch_returns_the_same_pull_request(bench: Bench) -> None:
    first = await bench.open()
    assert await bench.open(title="Another title") == first


async def test_concurrent_requests_open_one_pull_request(bench: Bench) -> None:
    assert len(set(await asyncio.gather(*(bench.open() for _ in range(8))))) == 1


async def test_a_draft_is_opened_as_a_draft_and_adopted_as_one(bench: Bench) -> None:
    first = await bench.open(draft=True)
    assert first.draft
    assert await bench.open() == first
    existing = await bench.forge.pull_of_branch(bench.repo, BRANCHES[0])
    assert existing is not None
    assert existing.number == first.number


async def test_a_pull_request_is_opened_whatever_title_the_agent_writes(bench: Bench) -> None:
    titles = ("", "\x00", "two\nlines", "x" * 5_000, "\ud800", "<script>", "Draft: no", "WIP: no")
    branches = [f"agentjobs/{at}" for at in range(len(titles))]
    bench.push(*branches)
    opened = [
        await bench.open(branch, title=title, body=f"{title} body \x00 \udfff" * 300)
        for branch, title in zip(branches, titles, strict=True)
    ]
    assert len({pull.number for pull in opened}) == len(titles)


async def test_a_branch_may_have_any_name_that_git_accepts(bench: Bench) -> None:
    branches = ("agentjobs/a+b%20c", "agentjobs/größe#1&state=closed", "agentjobs/q=ü;x'\"")
    bench.push(*branches)
    for branch in branches:
        opened = await bench.open(branch)
        existing = await bench.forge.pull_of_branch(bench.repo, branch)
        assert existing is not None
        assert existing.number == opened.number


async def test_a_follow_up_needs_an_open_pull_request(bench: Bench) -> None:
    with pytest.raises(ForgeError, match="no longer has a pull request"):
        await bench.open(is_follow_up=True)
    first = await bench.open()
    assert await bench.open(is_follow_up=True) == first


async def test_a_missing_repository_is_a_forge_error(bench: Bench) -> None:
    for external_id in ("", "99999999"):
        gone = RepoAddress("acme", "acme/gone", "repo_gone", external_id)
        with pytest.raises(ForgeError):
            await bench.forge.open_pull_request(gone, CREDENTIAL, bench.request())


async def test_the_credential_is_not_part_of_the_address(bench: Bench) -> None:
    async with bench.forge.open_remote(bench.repo, "s3cret") as remote:
        shown = f"{remote.url} {remote!r}"
        assert remote.authorization is not None
    known = bench.known_secrets if isinstance(bench, PlatformBench) else ["s3cret"]
    assert not [secret for secret in known if secret in shown]


@pytest.mark.parametrize("bench", LOCAL, indirect=True)
async def test_an_expired_credential_opens_no_pull_request(bench: Bench) -> None:
    with pytest.raises(ForgeError):
        await bench.forge.open_pull_request(bench.repo, "ajt_old", bench.request())
    assert (await bench.open()).number == 1
