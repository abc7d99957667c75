"""Commits what the agent changed, in the mirror only."""

from agentjobs.git.identity import Identity
from agentjobs.jobs.outcomes import JobFailed
from agentjobs.jobs.run.context import RunContext
from agentjobs.jobs.run.plan import RunPlan
from agentjobs.jobs.run.pull_text import PullText, commit_message
from agentjobs.settings import Settings
from agentjobs.workspace import commit as workspace_commit
from agentjobs.workspace.checkout import Checkout


async def commit_changes(run: RunContext, plan: RunPlan, checkout: Checkout, text: PullText) -> str:
    """Raises UnsafeChange for changes that the service does not propose."""
    author, committer = _identities(run.settings)
    commit = await workspace_commit.commit_changes(
        run.mirror,
        checkout,
        commit_message(run.job, text),
        author=author,
        committer=committer,
        protected=plan.protected_paths,
        lifted=run.job.lifted_paths,
    )
    if commit is None:
        raise JobFailed("no_changes", "The agent finished without proposing a change.")
    return commit


def _identities(settings: Settings) -> tuple[Identity, Identity]:
    author = Identity(settings.author_name, settings.author_email)
    committer = Identity(
        settings.committer_name or settings.author_name,
        settings.committer_email or settings.author_email,
    )
    return author, committer
