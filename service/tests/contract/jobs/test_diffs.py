"""Storing what a job changed, on both databases."""

from pathlib import Path

import pytest

from agentjobs.jobs.queue.start import start_job
from agentjobs.jobs.results.diffs import MAX_DIFF_BYTES, load_diff, store_diff
from agentjobs.jobs.views.detail_queries import DiffSize, load_details
from agentjobs.store.database import Transaction
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.problems import Problem
from tests.support.git_commands import git_output
from tests.support.jobs import JobHarness


def commit(source: Path, **files: str) -> str:
    if not source.exists():
        source.mkdir(parents=True)
        git_output("init", "-q", cwd=source)
    for name, text in files.items():
        (source / name).write_text(text)
    git_output("add", "-A", cwd=source)
    git_output("commit", "-q", "-m", "change", cwd=source)
    return git_output("rev-parse", "HEAD", cwd=source)


async def test_a_retry_replaces_the_diff_of_an_earlier_attempt(
    harness: JobHarness, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    base, first, second = commit(source, a="1\n"), commit(source, b="2\n"), commit(source, c="3\n")
    caller = await harness.organization()
    job_id = await harness.job(caller)
    claimed = await harness.claim()
    await start_job(harness.db, claimed, base, "prompt")
    await store_diff(harness.db, claimed, source / ".git", base, first)
    await store_diff(harness.db, claimed, source / ".git", first, second)
    diff = await load_diff(harness.context, caller.organization_id, job_id)
    assert (diff.base_commit, diff.head_commit, diff.is_truncated) == (base, None, False)
    assert b"diff --git a/c b/c" in diff.content
    assert b"diff --git a/b b/b" not in diff.content
    row = await harness.db.fetch_one("SELECT additions, deletions, files FROM job_diffs")
    assert row is not None
    assert (row["additions"], row["deletions"], row["files"]) == (1, 0, 1)
    details = await load_details(harness.context, caller.organization_id, job_id)
    assert details.diff_size == DiffSize(1, 0, 1, is_truncated=False)


async def test_a_lost_claim_stores_no_diff(harness: JobHarness, tmp_path: Path) -> None:
    source = tmp_path / "source"
    base, head = commit(source, a="1\n"), commit(source, b="2\n")
    caller = await harness.organization()
    job_id = await harness.job(caller)
    lost = await harness.claim()
    await harness.db.transact(_end_claim, job_id)
    await store_diff(harness.db, lost, source / ".git", base, head)
    with pytest.raises(Problem) as refused:
        await load_diff(harness.context, caller.organization_id, job_id)
    assert refused.value.code == "diff_not_available"


async def test_a_large_diff_is_cut(harness: JobHarness, tmp_path: Path) -> None:
    source = tmp_path / "source"
    base = commit(source, a="1\n")
    head = commit(source, b="small\n", c="long line\n" * (MAX_DIFF_BYTES // 10))
    caller = await harness.organization()
    job_id = await harness.job(caller)
    await store_diff(harness.db, await harness.claim(), source / ".git", base, head)
    diff = await load_diff(harness.context, caller.organization_id, job_id)
    assert diff.is_truncated
    assert diff.content.count(b"diff --git") == 1
    assert diff.content.endswith(b"+small\n")


async def test_commits_that_the_mirror_lacks_are_an_error(
    harness: JobHarness, tmp_path: Path
) -> None:
    base = commit(tmp_path / "source", a="1\n")
    await harness.job(await harness.organization())
    with pytest.raises(GitError):
        await store_diff(
            harness.db, await harness.claim(), tmp_path / "source" / ".git", base, "f" * 40
        )


async def _end_claim(tx: Transaction, job_id: str) -> None:
    await tx.execute("UPDATE job_queue SET fence = fence + 1 WHERE job_id = :id", id=job_id)


async def _set_commits(tx: Transaction, job_id: str, base: str, head: str) -> None:
    await tx.execute(
        "UPDATE jobs SET base_commit = :base, head_commit = :head WHERE id = :id",
        id=job_id,
        base=base,
        head=head,
    )
