"""Merges the base branch into a pull request of the platform `local`, with marks at conflicts.

Somebody resolves them in the branch. Until then the pull request is a draft, which nobody merges.
"""

import msgspec

from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.local_git.commit_tree import MergeConflict, commit_tree, merged_tree
from agentjobs.local_git.repositories import DURABLE, present_path
from agentjobs.organizations import audit
from agentjobs.pulls.comparison import find_tips
from agentjobs.pulls.pulls import Pull, check_open, get_pull
from agentjobs.pulls.pushes import record_push
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.process import GitError, git
from agentjobs_runtime.git.refs import HEADS
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings


class MarkedMerge(msgspec.Struct, frozen=True):
    """`commit` has the marks in `files`; `head` was the head before it."""

    head: str
    commit: str
    files: tuple[str, ...]


async def mark_conflicts(db: Database, settings: Settings, pull: Pull) -> MarkedMerge:
    """Add the merge to the branch. Raises Problem if there is no conflict."""
    check_open(pull)
    git_dir = present_path(settings.repositories_path, pull.repo_id)
    identity = Identity(settings.effective_author_name, settings.effective_author_email)
    async with changing_repository(db, pull.repo_id):
        # The wait may have taken a minute.
        check_open(await get_pull(db, pull.organization, pull.repo, pull.number))
        tips = await find_tips(git_dir, pull)
        try:
            await merged_tree(git_dir, tips.head, tips.base)
        except MergeConflict as conflict:
            commit = await commit_tree(
                git_dir,
                conflict.tree,
                [tips.head, tips.base],
                f"Merge {pull.base_branch}, with conflicts to resolve\n".encode(),
                identity.as_author_and_committer,
            )
            merge = MarkedMerge(tips.head, commit, conflict.files)
            await _add_marks(db, settings, pull, merge)
        except GitError as error:
            message = f"git cannot merge {pull.base_branch!r} into it: {error.reason}."
            raise Problem("pull_not_mergeable", message) from None
        else:
            raise Problem("pull_changed", "There are no conflicts any more. Reload the page.")
    entry = audit.entry("pull.base_merged", pull.short_name, commit=commit)
    await db.transact(audit.write, pull.organization_id, entry)
    return merge


async def remove_marks(db: Database, settings: Settings, pull: Pull, merge: MarkedMerge) -> None:
    """Undo the merge, unless the branch was pushed to since."""
    async with changing_repository(db, pull.repo_id):
        await _move(db, settings, pull, merge.head, merge.commit)
    await db.transact(_set_draft, pull, draft=pull.draft)


async def _add_marks(db: Database, settings: Settings, pull: Pull, merge: MarkedMerge) -> None:
    # A draft first: whoever waits for the repository to merge the branch must not merge the marks.
    await db.transact(_set_draft, pull, draft=True)
    try:
        await _move(db, settings, pull, merge.commit, merge.head)
    except Problem:
        await db.transact(_set_draft, pull, draft=pull.draft)
        raise


async def _move(db: Database, settings: Settings, pull: Pull, new: str, old: str) -> None:
    ref = HEADS + pull.head_branch
    git_dir = present_path(settings.repositories_path, pull.repo_id)
    try:
        await git(
            *("update-ref", "--no-deref", ref, new, old), git_dir=git_dir, configuration=DURABLE
        )
    except GitError:
        message = "Somebody has just pushed to the branch. Reload the page."
        raise Problem("pull_changed", message) from None
    await record_push(db, settings.repositories_path, pull.repo_id, [ref])


async def _set_draft(tx: Transaction, pull: Pull, *, draft: bool) -> None:
    await tx.execute(
        "UPDATE pulls SET draft = :draft WHERE repo_id = :repo_id AND number = :number"
        " AND state = 'open'",
        draft=draft,
        **pull.key,
    )
