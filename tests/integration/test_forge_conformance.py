"""What every platform must do for a job; run against each implementation."""

import asyncio
from pathlib import Path

import pytest

from agentjobs.forges.protocol import Forge, ForgeError, PullRequestRequest, RepoAddress
from agentjobs.store.database import Database
from tests.local_platform import CREDENTIAL, make_platform


class Bench:
    """A forge under test, with a repository on it that has branches to propose."""

    def __init__(self, forge: Forge, repo: RepoAddress, commits: dict[str, str], base: str) -> None:
        self.forge = forge
        self.repo = repo
        self.commits = commits
        self.base = base

    def request(self, branch: str = "agentjobs/one", **fields: object) -> PullRequestRequest:
        given = {
            "head_branch": branch,
            "base_branch": "main",
            "head_commit": self.commits[branch],
            "base_commit": self.base,
            "title": "A change",
            "body": "Because.",
            **fields,
        }
        return PullRequestRequest(**given)  # type: ignore[arg-type]


@pytest.fixture(params=["local"])
async def bench(database: Database, tmp_path: Path) -> Bench:
    platform = await make_platform(database, tmp_path)
    branches = ("agentjobs/one", "agentjobs/two")
    commits = {name: platform.propose(name, {"new.txt": name}) for name in branches}
    return Bench(platform.forge, platform.repo, commits, platform.head())


async def test_a_pull_request_has_a_number_and_an_address(bench: Bench) -> None:
    pull = await bench.forge.open_pull_request(bench.repo, CREDENTIAL, bench.request())
    assert pull.number >= 1
    assert pull.url.startswith("https://")
    assert pull.url.endswith(f"/{pull.number}")
    assert not pull.draft


async def test_two_branches_are_two_pull_requests(bench: Bench) -> None:
    first = await bench.forge.open_pull_request(bench.repo, CREDENTIAL, bench.request())
    second = await bench.forge.open_pull_request(
        bench.repo, CREDENTIAL, bench.request("agentjobs/two")
    )
    assert first.number != second.number
    assert first.url != second.url


async def test_asking_again_for_a_branch_adopts_what_is_there(bench: Bench) -> None:
    first = await bench.forge.open_pull_request(bench.repo, CREDENTIAL, bench.request())
    again = await bench.forge.open_pull_request(
        bench.repo, CREDENTIAL, bench.request(title="Other words")
    )
    assert again == first


async def test_asking_many_times_at_once_opens_one(bench: Bench) -> None:
    asked = [
        bench.forge.open_pull_request(bench.repo, CREDENTIAL, bench.request()) for _ in range(8)
    ]
    assert len(set(await asyncio.gather(*asked))) == 1


async def test_a_draft_is_opened_as_a_draft_and_adopted_as_one(bench: Bench) -> None:
    first = await bench.forge.open_pull_request(bench.repo, CREDENTIAL, bench.request(draft=True))
    again = await bench.forge.open_pull_request(bench.repo, CREDENTIAL, bench.request())
    assert first.draft
    assert again == first


async def test_whatever_an_agent_calls_its_work_a_pull_request_is_opened(bench: Bench) -> None:
    commit = bench.commits["agentjobs/one"]
    titles = ("", "\x00", "two\nlines", "x" * 5_000, "\ud800", "<script>")
    numbers = set()
    for at, title in enumerate(titles):
        request = bench.request(
            head_branch=f"agentjobs/{at}",
            head_commit=commit,
            title=title,
            body=f"{title} body \x00 \udfff" * 10,
        )
        numbers.add((await bench.forge.open_pull_request(bench.repo, CREDENTIAL, request)).number)
    assert len(numbers) == len(titles)


async def test_a_repository_that_is_not_there_is_a_forge_error(bench: Bench) -> None:
    gone = RepoAddress("acme", "acme/gone", "repo_gone")
    with pytest.raises(ForgeError):
        await bench.forge.open_pull_request(gone, CREDENTIAL, bench.request())


async def test_the_credential_is_not_part_of_the_address(bench: Bench) -> None:
    async with bench.forge.reach(bench.repo, "s3cret") as remote:
        pass
    assert "s3cret" not in remote.url
    assert remote.authorization is not None
    assert "s3cret" not in repr(remote)


async def test_a_credential_that_is_not_valid_any_more_opens_nothing(bench: Bench) -> None:
    with pytest.raises(ForgeError):
        await bench.forge.open_pull_request(bench.repo, "ajt_old", bench.request())
    pull = await bench.forge.open_pull_request(bench.repo, CREDENTIAL, bench.request())
    assert pull.number == 1
