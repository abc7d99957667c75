"""Merges a pull request of the platform `local`: the branch first, then its row."""

from pathlib import Path

from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.local_git.commit_tree import MergeConflict
from agentjobs.local_git.merge import BranchMoved, Merge, merge_into
from agentjobs.local_git.rebase import RebaseRefused
from agentjobs.local_git.repositories import present_path
from agentjobs.organizations import audit
from agentjobs.platforms.protocol import MergeMethod
from agentjobs.pulls.branches import remove_pull_branch
from agentjobs.pulls.comparison import Tips, find_tips
from agentjobs.pulls.pulls import Pull, check_open, get_pull
from agentjobs.pulls.pushes import record_heads, record_push
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.git.refs import HEADS, read_heads
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

_MAX_ATTEMPTS = 5
# Limits for the message and for the details.
_MAX_NAMED_FILES = 10
_MAX_FILES = 1_000


async def merge_pull(
    db: Database,
    settings: Settings,
    organization: str,
    full_name: str,
    number: int,
    *,
    method: MergeMethod = "merge",
    head_commit: str | None = None,
) -> Pull:
    """Merge it into the base branch; with `head_commit`, only if that is still its head.

    Raises Problem, with nothing changed.
    """
    pull = await get_pull(db, organization, full_name, number)
    _check_mergeable(pull)
    git_dir = present_path(settings.repositories_path, pull.repo_id)
    identity = Identity(settings.effective_author_name, settings.effective_author_email)
    async with changing_repository(db, pull.repo_id):
        # The wait may have taken a minute.
        _check_mergeable(await get_pull(db, organization, full_name, number))
        tips, commit = await _merge(git_dir, pull, method, head_commit, identity)
    heads = await read_heads(git_dir, [pull.base_branch])
    entry = audit.entry("pull.merged", pull.short_name)
    await db.transact(_record_merge, pull, tips, commit, heads, entry)
    # A push may have happened between reading the branches and storing them.
    await record_push(db, settings.repositories_path, pull.repo_id, [HEADS + pull.base_branch])
    merged = await get_pull(db, organization, full_name, number)
    await remove_pull_branch(db, settings, merged)
    return merged


def _check_mergeable(pull: Pull) -> None:
    check_open(pull)
    if pull.draft:
        raise Problem(
            "pull_not_mergeable",
            f"Pull request {pull.number} is a draft; mark it ready with `agentjobs pulls ready`"
            " first.",
        )


async def _merge(
    git_dir: Path, pull: Pull, method: MergeMethod, head_commit: str | None, identity: Identity
) -> tuple[Tips, str]:
    for _ in range(_MAX_ATTEMPTS):
        tips = await find_tips(git_dir, pull)
        if head_commit is not None and head_commit != tips.head:
            raise pull_changed(pull, tips.head)
        merge = Merge(
            branch=pull.base_branch,
            base=tips.base,
            head=tips.head,
            method=method,
            message=_message(pull, method),
            identity=identity,
            pull_number=pull.number,
        )
        try:
            return tips, await merge_into(git_dir, merge)
        except BranchMoved:
            continue
        except MergeConflict as conflict:
            raise _conflict(pull, conflict.files) from None
        except RebaseRefused as refusal:
            raise Problem("pull_not_mergeable", str(refusal)) from None
        except GitError as error:
            raise Problem("pull_not_mergeable", f"git cannot merge it: {error.reason}.") from None
    raise Problem(
        "pull_not_mergeable", f"The branch {pull.base_branch!r} changes too often; try again later."
    )


def _message(pull: Pull, method: MergeMethod) -> str:
    if method == "squash":
        return f"{pull.title} (#{pull.number})\n"
    return f"Merge pull request #{pull.number}: {pull.title}\n"


def pull_changed(pull: Pull, head_commit: str) -> Problem:
    return Problem(
        "pull_changed",
        f"The head of pull request {pull.number} is now {head_commit}; review it, and repeat the "
        "request with this `head_commit`.",
        details={"head_commit": head_commit},
    )


def _conflict(pull: Pull, files: tuple[str, ...]) -> Problem:
    return Problem(
        "pull_not_mergeable",
        f"Pull request {pull.number} conflicts with {pull.base_branch!r} in: {_enumerate(files)}.",
        details={"files": list(files[:_MAX_FILES])},
    )


def _enumerate(files: tuple[str, ...]) -> str:
    named = ", ".join(files[:_MAX_NAMED_FILES])
    more = len(files) - _MAX_NAMED_FILES
    return f"{named} and {more} more" if more > 0 else named


async def _record_merge(
    tx: Transaction, pull: Pull, tips: Tips, commit: str, heads: dict[str, str], entry: audit.Entry
) -> None:
    # The branch has the merge, whatever the row says by now.
    changed = await tx.execute(
        "UPDATE pulls SET state = 'merged', merge_commit = :commit, merged_at = :now,"
        " closed_at = NULL, base_commit = :base, head_commit = :head, ended_by = :ended_by"
        " WHERE repo_id = :repo_id AND number = :number AND state <> 'merged'",
        commit=commit,
        now=await tx.clock_ms(),
        base=tips.base,
        head=tips.head,
        ended_by=entry.actor.name,
        **pull.key,
    )
    if changed:
        await audit.write(tx, pull.organization_id, entry)
    await record_heads(tx, pull.repo_id, heads)
