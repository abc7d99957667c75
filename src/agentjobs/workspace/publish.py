"""From an agent's tree to a branch: commit what it changed, push that commit, trust nothing.

Knows no job and no platform: messages, names and addresses are handed in.
"""

from collections.abc import Sequence
from pathlib import Path

from agentjobs.git.identity import Identity
from agentjobs.git.process import GitError, git
from agentjobs.git.remote import (
    NETWORK_PROTOCOLS,
    Remote,
    is_away,
    is_branch_name,
    refuses_access,
)
from agentjobs.git.trees import changes_between
from agentjobs.safe_text import mask_unprintable
from agentjobs.workspace.change_checks import Protection, judge_changes, judge_tree
from agentjobs.workspace.checkout import Checkout
from agentjobs.workspace.errors import PushRejected, RepoUnavailable
from agentjobs.workspace.mirror import mark_damaged, speaks_of_damage
from agentjobs.workspace.patterns import parse_patterns
from agentjobs.workspace.staging import Stage, open_stage
from agentjobs.workspace.threads import to_its_end
from agentjobs.workspace.tree_scan import survey_tree

PUSH_TIMEOUT_SECONDS = 1_800
LIST_TIMEOUT_SECONDS = 60


async def commit_changes(
    mirror: Path,
    checkout: Checkout,
    message: str,
    author: Identity,
    committer: Identity | None = None,
    *,
    protected: Sequence[str] = (),
    lifted: Sequence[str] = (),
) -> str | None:
    """Commit the tree's change on top of its base, in the mirror; None when nothing changed.

    `protected` patterns are the repository's own; `lifted` ones open what the service protects by
    itself. The sandbox must be dead. Raises UnsafeChange, RepoUnavailable, and ValueError for a
    text that is no pattern.
    """
    protection = Protection(parse_patterns(protected), parse_patterns(lifted))
    try:
        async with open_stage(mirror, checkout) as stage:
            survey = await to_its_end(survey_tree, checkout.tree, checkout.copied_at_ns)
            await judge_tree(stage, survey)
            tree = await stage.add_all()
            changes = await changes_between(
                mirror, checkout.commit, tree, environment=stage.environment
            )
            if not changes:
                return None
            await judge_changes(stage, survey, changes, protection)
            commit = await _commit(stage, tree, message, author, committer or author)
            await to_its_end(stage.accept)
            return commit
    except GitError as error:
        if speaks_of_damage(error):
            mark_damaged(mirror)
        raise RepoUnavailable(f"the change cannot be committed: {error.reason}") from error


async def push(
    mirror: Path, commit: str, branch: str, remote: Remote, *, expected: str | None
) -> None:
    """Make the branch of the remote this commit, if it still is at `expected` (None: not there).

    Raises PushRejected for a refusal and RepoUnavailable when nobody answers.
    """
    ref = f"refs/heads/{branch}"
    if not is_branch_name(branch):
        raise PushRejected(f"{branch!r} is not a branch name")
    try:
        pushed = await git(
            "push",
            "--porcelain",
            "--no-verify",
            "--no-follow-tags",
            f"--force-with-lease={ref}:{expected or ''}",
            "--",
            remote.url,
            f"{commit}:{ref}",
            git_dir=mirror,
            configuration=remote.configuration,
            environment=remote.environment,
            protocols=NETWORK_PROTOCOLS,
            timeout_seconds=PUSH_TIMEOUT_SECONDS,
            allowed_exit_codes=(0, 1),
        )
    except GitError as error:
        raise _push_failure(error) from None
    report = pushed.stdout.decode("utf-8", "replace")
    if any(line.startswith("!") for line in report.splitlines()):
        raise PushRejected(_refusal(report, pushed.stderr))
    if pushed.exit_code != 0:
        raise _push_failure(GitError(("push",), pushed.exit_code, pushed.stderr))


async def branch_head(remote: Remote, branch: str) -> str | None:
    """The commit the remote's branch is at, or None; raises RepoUnavailable."""
    ref = f"refs/heads/{branch}"
    if not is_branch_name(branch):
        return None
    try:
        listed = await git(
            "ls-remote",
            "--quiet",
            "--",
            remote.url,
            ref,
            configuration=remote.configuration,
            environment=remote.environment,
            protocols=NETWORK_PROTOCOLS,
            timeout_seconds=LIST_TIMEOUT_SECONDS,
        )
    except GitError as error:
        message = f"the repository cannot be reached: {error.reason}"
        raise RepoUnavailable(message, may_pass=is_away(error.stderr)) from None
    # The pattern also matches the end of longer names.
    for line in listed.stdout.decode("utf-8", "replace").splitlines():
        commit, _, name = line.partition("\t")
        if name == ref:
            return commit
    return None


async def _commit(
    stage: Stage, tree: str, message: str, author: Identity, committer: Identity
) -> str:
    made = await stage.run(
        "commit-tree",
        "-p",
        stage.checkout.commit,
        tree,
        input=message.replace("\0", "").encode("utf-8", "replace"),
        environment=author.as_role("AUTHOR") | committer.as_role("COMMITTER"),
    )
    return made.stdout.decode("ascii").strip()


def _push_failure(error: GitError) -> PushRejected | RepoUnavailable:
    if refuses_access(error.stderr):
        return PushRejected(f"the push is not allowed: {error.reason}")
    message = f"the branch cannot be pushed: {error.reason}"
    return RepoUnavailable(message, may_pass=is_away(error.stderr))


def _refusal(report: str, told: str) -> str:
    """What git and the other side said of the refused branch, fit to be shown."""
    refused = [line.split("\t")[-1] for line in report.splitlines() if line.startswith("!")]
    remarks = [
        line.removeprefix("remote:").strip() for line in told.splitlines() if "remote:" in line
    ]
    said = "; ".join(part for part in [*refused[:1], *remarks[:5]] if part)
    printable = mask_unprintable(said)
    return f"the push was refused: {printable or 'no reason given'}"[:1_000]
