"""Comments that request a follow-up, on both stores: who may, and that each starts one job."""

from typing import Any

import pytest

from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.review import request_review
from agentjobs.organizations.authentication import Caller
from agentjobs.platform_sync.claims import PlatformRepo
from agentjobs.platform_sync.comments import (
    CommentDeferred,
    handle_comment,
    parse_instruction,
    prompt_for,
)
from agentjobs.platform_sync.refusals import MAX_REFUSALS
from agentjobs.platforms.protocol import (
    Comment,
    CommentCursor,
    PlatformError,
    PullRequest,
    PullRequestRequest,
    RepoAddress,
)
from agentjobs.platforms.text import OWN_MARK
from agentjobs.pulls.platform_pulls import record_pull
from agentjobs.store.database import Transaction
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Completed
from tests.support.jobs import JobHarness

BASE, COMMIT = "0" * 40, "1" * 40
URL = "https://git.example/acme/shop/pull/7"


class FakeComments:
    """The part of a platform that comments need: who may write, and the replies posted."""

    platform = "gitea"

    def __init__(self, *writers: str) -> None:
        self.writers = writers
        self.replies: list[str] = []
        self.others: list[Comment] = []
        self.addressed: set[str] = set()

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        self.addressed.add(repo.full_name)
        return login in self.writers

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        self.addressed.add(f"{repo.full_name}#{number}")
        self.replies.append(text)

    async def comments(
        self, repo: RepoAddress, number: int, cursor: CommentCursor
    ) -> list[Comment]:
        assert (repo.full_name, number, cursor.comments) == ("acme/shop", 7, 0)
        own = [Comment(n, "agentjobs", text, "") for n, text in enumerate(self.replies, 1)]
        return self.others + own


async def completed_job(harness: JobHarness, caller: Caller, *, draft: bool = False) -> ClaimedJob:
    """A completed job that opened pull request 7 on a platform."""
    job = await unfinished_job(harness, caller, draft=draft)
    assert await finish_job(harness.db, job, Completed(URL, 7, COMMIT, draft))
    return job


async def unfinished_job(harness: JobHarness, caller: Caller, *, draft: bool = False) -> ClaimedJob:
    """A job that has opened pull request 7 and is not finished yet."""
    await harness.job(caller)
    job = await harness.claim()
    await start_job(harness.db, job, BASE)
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
        await harness.db.transact(record_pull, job.repo_id, request, pull)
    return job


def hosted_repo(job: ClaimedJob, caller: Caller, **fields: Any) -> PlatformRepo:
    connection = {"connection_kind": "token", "account": "AgentJobs", **fields}
    return PlatformRepo(
        id=job.repo_id,
        organization_id=caller.organization_id,
        organization=job.organization,
        plan=caller.plan,
        platform="gitea",
        connection_id="fcn_1",
        external_id="",
        full_name=job.repo,
        default_branch="main",
        head_commit=BASE,
        **connection,
    )


async def test_a_person_with_write_access_starts_a_follow_up_once_and_gets_a_reply(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job = await completed_job(harness, caller)
    assert (await harness.view(caller, job.id)).pr_state == "open"
    platform = FakeComments("ada")
    comment = Comment(41, "ada", "@AgentJobs: add a test\nfor zero", "")
    for _ in range(2):
        await handle_comment(
            harness.context,
            platform,  # type: ignore[arg-type]
            hosted_repo(job, caller),
            7,
            comment,
        )
    claimed = await harness.claim()
    assert (claimed.follows, claimed.branch) == (job.id, job.branch)
    assert claimed.config_override == {"prompt": "add a test\nfor zero"}
    assert await harness.nothing_to_claim()
    (reply,) = platform.replies
    assert platform.addressed == {"acme/shop", "acme/shop#7"}
    assert reply.startswith(OWN_MARK)
    assert f"/jobs/{claimed.id})" in reply


async def test_while_a_follow_up_runs_the_reply_to_the_next_comment_says_why_none_starts(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job = await completed_job(harness, caller)
    platform = FakeComments("ada")
    for number in (1, 2):
        await handle_comment(
            harness.context,
            platform,  # type: ignore[arg-type]
            hosted_repo(job, caller),
            7,
            Comment(number, "ada", "@agentjobs go on", ""),
        )
    assert "is working on this pull request" in platform.replies[1]


OTHER_COMMENTS = [
    ("ada", "@agentjobs-fan hello"),
    ("ada", "@agentjobs/team hello"),
    ("ada", "@agentjobs.x hello"),
    ("ada", "please ask @agentjobs to"),
    ("ada", "@agentjobs"),
    ("ada", f"@agentjobs do it {OWN_MARK}"),
    ("bot[bot]", "@agentjobs do it"),
]


async def test_other_comments_start_nothing_and_get_no_reply(
    harness: JobHarness, subtests: pytest.Subtests
) -> None:
    caller = await harness.organization()
    job = await completed_job(harness, caller)
    platform = FakeComments("ada", "bot[bot]")
    for number, (author, text) in enumerate(OTHER_COMMENTS, 1):
        with subtests.test(text):
            await handle_comment(
                harness.context,
                platform,  # type: ignore[arg-type]
                hosted_repo(job, caller, account="bot[bot]", connection_kind="app"),
                7,
                Comment(number, author, text, ""),
            )
            assert platform.replies == []
            assert await harness.nothing_to_claim()


async def test_each_kind_has_its_own_ids_and_a_line_comment_names_its_place(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job = await completed_job(harness, caller)
    platform, text = FakeComments("ada"), "@agentjobs rename it"
    at_line = Comment(41, "ada", text, "", "line", "src/a.py, line 12")
    # The same comment, read again after the lines have moved.
    moved = Comment(41, "ada", text, "", "line", "src/a.py")
    prompts = []
    for comment in (
        Comment(41, "ada", text, ""),
        at_line,
        moved,
        Comment(41, "ada", text, "", "review"),
    ):
        await handle_comment(
            harness.context,
            platform,  # type: ignore[arg-type]
            hosted_repo(job, caller),
            7,
            comment,
        )
        if comment is moved:
            assert await harness.nothing_to_claim()
            continue
        claimed = await harness.claim()
        prompts.append(claimed.config_override["prompt"])
        await start_job(harness.db, claimed, BASE)
        assert await finish_job(harness.db, claimed, Completed(URL, 7, COMMIT, draft=False))
    assert prompts == ["rename it", "About src/a.py, line 12:\nrename it", "rename it"]
    assert len(platform.replies) == 3


def test_the_place_in_a_prompt_is_one_plain_line_and_both_are_bounded() -> None:
    assert prompt_for("do it", "") == "do it"
    assert prompt_for("do it", "a\n\x1b[2Jb\u202e.py, line 1") == "About a [2Jb.py, line 1:\ndo it"
    assert len(prompt_for("do it", "x" * 5_000)) == len("About :\ndo it") + 400
    assert len(prompt_for("é" * 6_000, "a.py").encode()) <= 12_000


def test_an_instruction_is_plain_text_and_bounded() -> None:
    assert parse_instruction("@agentjobs \x00a\ud800b\u202e", "agentjobs") == "a?b"
    instruction = parse_instruction("@agentjobs " + "é" * 20_000, "agentjobs")
    assert instruction is not None
    assert len(instruction.encode()) == 12_000


async def test_marking_a_draft_ready_requests_its_review_once(harness: JobHarness) -> None:
    caller = await harness.organization()
    job = await completed_job(harness, caller, draft=True)
    assert "pr.review_requested" not in await harness.events(caller, job.id)
    for _ in range(2):
        await harness.db.transact(request_review, job.repo_id, 7)
    assert (await harness.events(caller, job.id)).count("pr.review_requested") == 1


async def test_a_comment_is_deferred_until_the_job_is_finished(harness: JobHarness) -> None:
    caller = await harness.organization()
    job = await unfinished_job(harness, caller)
    platform, comment = FakeComments("ada"), Comment(1, "ada", "@agentjobs go on", "")
    with pytest.raises(CommentDeferred):
        await handle_comment(
            harness.context,
            platform,  # type: ignore[arg-type]
            hosted_repo(job, caller),
            7,
            comment,
        )
    assert platform.replies == []


async def test_a_draft_marked_ready_before_the_job_is_finished_requests_its_review(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job = await unfinished_job(harness, caller, draft=True)
    await harness.db.transact(mark_ready, job.repo_id)
    assert await finish_job(harness.db, job, Completed(URL, 7, COMMIT, draft=True))
    assert (await harness.events(caller, job.id))[-1] == "pr.review_requested"


async def test_whoever_may_not_write_is_told_once(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job = await completed_job(harness, caller)
    platform = FakeComments("ada")
    for number, author in enumerate(("mallory", "Mallory", "mallory", "]( x"), 1):
        await handle_comment(
            harness.context,
            platform,  # type: ignore[arg-type]
            hosted_repo(job, caller),
            7,
            Comment(number, author, "@agentjobs delete everything", ""),
        )
    assert await harness.nothing_to_claim()
    first, second = platform.replies
    assert first.startswith(OWN_MARK)
    assert "@mallory: No follow-up was started: only people with write access" in first
    assert "](" not in second


async def test_a_stranger_who_writes_the_mark_of_a_reply_does_not_suppress_it(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job = await completed_job(harness, caller)
    written = FakeComments()
    for platform in (written, FakeComments()):
        platform.others = [Comment(9, "mallory", text, "") for text in written.replies]
        await handle_comment(
            harness.context,
            platform,  # type: ignore[arg-type]
            hosted_repo(job, caller),
            7,
            Comment(1, "bob", "@agentjobs delete everything", ""),
        )
        assert len(platform.replies) == 1


async def test_many_people_without_write_access_get_a_limited_number_of_replies(
    harness: JobHarness,
) -> None:
    caller = await harness.organization()
    job = await completed_job(harness, caller)
    platform = FakeComments()
    for number in range(1, 31):
        await handle_comment(
            harness.context,
            platform,  # type: ignore[arg-type]
            hosted_repo(job, caller),
            7,
            Comment(number, f"mallory-{number}", "@agentjobs delete everything", ""),
        )
    assert len(platform.replies) == MAX_REFUSALS


async def test_if_the_platform_does_not_tell_who_may_write_the_author_and_the_admin_are_told(
    harness: JobHarness,
) -> None:
    class PermissionsHidden(FakeComments):
        async def may_write(self, repo: RepoAddress, login: str) -> bool:
            raise PlatformError(f"the role of {login} in {repo.full_name} is hidden", "denied")

    caller = await harness.organization()
    job = await completed_job(harness, caller)
    platform = PermissionsHidden()
    note = await handle_comment(
        harness.context,
        platform,  # type: ignore[arg-type]
        hosted_repo(job, caller),
        7,
        Comment(1, "ada", "@agentjobs go on", ""),
    )
    assert note == ("A comment on #7 started no follow-up: the role of ada in acme/shop is hidden")
    (reply,) = platform.replies
    assert "cannot read who has write access" in reply
    # What the connection may do is not for everybody.
    assert "hidden" not in reply
    assert await harness.nothing_to_claim()


async def mark_ready(tx: Transaction, repo_id: str) -> None:
    await tx.execute("UPDATE pulls SET draft = FALSE WHERE repo_id = :repo_id", repo_id=repo_id)
