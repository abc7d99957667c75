"""Makes the commit that is published. Only its tree and its text come from the worker."""

import dataclasses

from agentjobs.publishing.attribution import load_attribution
from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.earlier_attempt import PushedWork
from agentjobs.publishing.pull_text import PullText, commit_message
from agentjobs_runtime.clock import SECOND_MS, now_ms
from agentjobs_runtime.git.process import git
from agentjobs_runtime.git.signing import sign_commit


async def commit_tree(run: ServiceRun, work: PushedWork, text: PullText) -> PushedWork:
    """The same each time, so that an attempt recognizes what an earlier one pushed.

    Raises JobFailed if the signing key cannot be decrypted.
    """
    attribution = await load_attribution(run)
    shown = await git("show", "-s", "--format=%T %ct", work.commit, git_dir=run.mirror)
    tree, committed_at = shown.stdout.decode("ascii").split()
    # The clock of a worker may be wrong.
    at = f"{min(max(int(committed_at), 0), now_ms() // SECOND_MS)} +0000"
    created = await git(
        "commit-tree",
        "-p",
        work.base,
        tree,
        input=commit_message(run.job, text, attribution.co_author).encode(),
        environment={
            **attribution.author.as_role("AUTHOR"),
            **attribution.committer.as_role("COMMITTER"),
            "GIT_AUTHOR_DATE": at,
            "GIT_COMMITTER_DATE": at,
        },
        git_dir=run.mirror,
    )
    commit = created.stdout.decode("ascii").strip()
    if attribution.signing_key is not None:
        commit = await sign_commit(run.mirror, commit, attribution.signing_key)
    return dataclasses.replace(work, commit=commit)
