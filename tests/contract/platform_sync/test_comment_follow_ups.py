"""Comments that ask for more, on both stores: who is heard, and that nothing is done twice."""

from typing import Any

import pytest

from agentjobs.forges.protocol import (
    Comment,
    ForgeError,
    PullRequest,
    PullRequestRequest,
    RepoAddress,
)
from agentjobs.forges.text import OWN_MARK
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.queue.finish import finish_job
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.review import request_review
from agentjobs.jobs.run.outcomes import Completed
from agentjobs.organizations.key_ring import Caller
from agentjobs.platform_sync.comments import Conversation, answer_comment, instruction_in, prompt_of
from agentjobs.platform_sync.pulls import CommentDeferred
from agentjobs.pulls.platform_rows import record_pull
from agentjobs.store.database import Transaction
from tests.support.jobs import World

BASE, COMMIT = "0" * 40, "1" * 40
URL = "https://git.example/acme/shop/pull/7"


class Talk:
    """Stands for a platform: who may write there, and what was said to it."""

    platform = "gitea"

    def __init__(self, *writers: str) -> None:
        self.writers = writers
        self.said: list[str] = []
        self.places: set[str] = set()

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        self.places.add(repo.full_name)
        return login in self.writers

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        self.places.add(f"{repo.full_name}#{number}")
        self.said.append(text)


async def opened(world: World, caller: Caller, *, draft: bool = False) -> ClaimedJob:
    """A job that opened pull request 7 of a platform elsewhere, and is finished."""
    job = await opening(world, caller, draft=draft)
    assert await finish_job(world.db, job, Completed(URL, 7, COMMIT, draft))
    return job


async def opening(world: World, caller: Caller, *, draft: bool = False) -> ClaimedJob:
    """The same, at the moment before it is finished."""
    await world.job(caller)
    job = await world.claim()
    await start_job(world.db, job, BASE)
    request = PullRequestRequest(
        head_branch=job.branch,
        base_branch="main",
        head_commit=COMMIT,
        base_commit=BASE,
        title="Fix\x00 it",
        body="",
    )
    pull = PullRequest(7, URL, draft)
    for _ in range(2):
        await world.db.transact(record_pull, job.repo_id, request, pull)
    return job


def conversation(job: ClaimedJob, caller: Caller, **fields: Any) -> Conversation:
    address = RepoAddress(job.organization, job.repo, job.repo_id)
    return Conversation(address, caller.organization_id, caller.plan, "fcn_1", 7, **fields)


async def test_who_may_write_starts_a_follow_up_once_and_is_told(world: World) -> None:
    caller = await world.organization()
    job = await opened(world, caller)
    assert (await world.view(caller, job.id)).pr_state == "open"
    platform = Talk("ada")
    comment = Comment(41, "ada", "@AgentJobs: add a test\nfor zero", "")
    for _ in range(2):
        await answer_comment(
            world.context,
            platform,  # type: ignore[arg-type]
            conversation(job, caller),
            comment,
        )
    claimed = await world.claim()
    assert (claimed.follows, claimed.branch) == (job.id, job.branch)
    assert claimed.config_override == {"prompt": "add a test\nfor zero"}
    assert await world.nothing_to_claim()
    (said,) = platform.said
    assert platform.places == {"acme/shop", "acme/shop#7"}
    assert said.startswith(OWN_MARK)
    assert f"/jobs/{claimed.id})" in said


async def test_while_one_is_at_work_the_next_is_told_why_not(world: World) -> None:
    caller = await world.organization()
    job = await opened(world, caller)
    platform = Talk("ada")
    for number in (1, 2):
        await answer_comment(
            world.context,
            platform,  # type: ignore[arg-type]
            conversation(job, caller),
            Comment(number, "ada", "@agentjobs go on", ""),
        )
    assert "is at work on this pull request" in platform.said[1]


@pytest.mark.parametrize(
    ("author", "text", "own_login"),
    [
        ("stranger", "@agentjobs delete everything", ""),
        ("ada", "@agentjobs-fan hello", ""),
        ("ada", "@agentjobs/team hello", ""),
        ("ada", "@agentjobs.x hello", ""),
        ("ada", "please ask @agentjobs to", ""),
        ("ada", "@agentjobs", ""),
        ("ada", f"@agentjobs do it {OWN_MARK}", ""),
        ("bot[bot]", "@agentjobs do it", "bot[bot]"),
    ],
)
async def test_nobody_else_is_heard_or_answered(
    world: World, author: str, text: str, own_login: str
) -> None:
    caller = await world.organization()
    job = await opened(world, caller)
    platform = Talk("ada", "bot[bot]")
    await answer_comment(
        world.context,
        platform,  # type: ignore[arg-type]
        conversation(job, caller, own_login=own_login),
        Comment(1, author, text, ""),
    )
    assert platform.said == []
    assert await world.nothing_to_claim()


async def test_each_kind_has_its_own_numbers_and_a_line_says_where_it_is(world: World) -> None:
    caller = await world.organization()
    job = await opened(world, caller)
    platform, text = Talk("ada"), "@agentjobs rename it"
    at_line = Comment(41, "ada", text, "", "line", "src/a.py, line 12")
    # Read again after the lines moved, it is still the same.
    moved = Comment(41, "ada", text, "", "line", "src/a.py")
    prompts = []
    for comment in (
        Comment(41, "ada", text, ""),
        at_line,
        moved,
        Comment(41, "ada", text, "", "review"),
    ):
        await answer_comment(
            world.context,
            platform,  # type: ignore[arg-type]
            conversation(job, caller),
            comment,
        )
        if comment is moved:
            assert await world.nothing_to_claim()
            continue
        claimed = await world.claim()
        prompts.append(claimed.config_override["prompt"])
        await start_job(world.db, claimed, BASE)
        assert await finish_job(world.db, claimed, Completed(URL, 7, COMMIT, draft=False))
    assert prompts == ["rename it", "About src/a.py, line 12:\nrename it", "rename it"]
    assert len(platform.said) == 3


def test_a_place_in_a_prompt_is_one_plain_line_and_both_are_bounded() -> None:
    assert prompt_of("do it", "") == "do it"
    assert prompt_of("do it", "a\n\x1b[2Jb\u202e.py, line 1") == "About a [2Jb.py, line 1:\ndo it"
    assert len(prompt_of("do it", "x" * 5_000)) == len("About :\ndo it") + 400
    assert len(prompt_of("é" * 6_000, "a.py").encode()) <= 12_000


def test_an_instruction_is_plain_and_bounded() -> None:
    assert instruction_in("@agentjobs \x00a\ud800b\u202e", "agentjobs") == "a?b"
    found = instruction_in("@agentjobs " + "é" * 20_000, "agentjobs")
    assert found is not None
    assert len(found.encode()) == 12_000


async def test_a_draft_that_is_marked_ready_asks_for_its_review_once(world: World) -> None:
    caller = await world.organization()
    job = await opened(world, caller, draft=True)
    assert "pr.review_requested" not in await world.events(caller, job.id)
    for _ in range(2):
        await world.db.transact(request_review, job.repo_id, 7)
    assert (await world.events(caller, job.id)).count("pr.review_requested") == 1


async def test_what_is_said_before_the_job_is_finished_is_heard_later(world: World) -> None:
    caller = await world.organization()
    job = await opening(world, caller)
    platform, comment = Talk("ada"), Comment(1, "ada", "@agentjobs go on", "")
    with pytest.raises(CommentDeferred):
        await answer_comment(
            world.context,
            platform,  # type: ignore[arg-type]
            conversation(job, caller),
            comment,
        )
    assert platform.said == []


async def test_a_draft_marked_ready_before_the_job_is_finished_asks_for_its_review(
    world: World,
) -> None:
    caller = await world.organization()
    job = await opening(world, caller, draft=True)
    await world.db.transact(mark_ready, job.repo_id)
    assert await finish_job(world.db, job, Completed(URL, 7, COMMIT, draft=True))
    assert (await world.events(caller, job.id))[-1] == "pr.review_requested"


async def test_a_platform_that_does_not_say_who_may_write_is_taken_for_a_no(world: World) -> None:
    class Silent(Talk):
        async def may_write(self, repo: RepoAddress, login: str) -> bool:
            raise ForgeError(f"who {login} is in {repo.full_name} is not for you", "denied")

    caller = await world.organization()
    job = await opened(world, caller)
    platform = Silent()
    await answer_comment(
        world.context,
        platform,  # type: ignore[arg-type]
        conversation(job, caller),
        Comment(1, "ada", "@agentjobs go on", ""),
    )
    assert platform.said == []
    assert await world.nothing_to_claim()


async def mark_ready(tx: Transaction, repo_id: str) -> None:
    await tx.execute("UPDATE pulls SET draft = FALSE WHERE repo_id = :repo_id", repo_id=repo_id)
