"""Commits what the agent changed, in the mirror only."""

from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.protocol.outcomes import JobFailed
from agentjobs_runtime.tracing.spans import traced
from agentjobs_worker.link.publishing import PullText, commit_message
from agentjobs_worker.run.context import RunContext
from agentjobs_worker.run.plan import RunPlan
from agentjobs_worker.workspace.checkout import Checkout
from agentjobs_worker.workspace.commit import commit_changes


@traced("commit")
async def commit_work(run: RunContext, plan: RunPlan, checkout: Checkout, text: PullText) -> str:
    """The service takes the tree and the text of the commit.

    Raises UnsafeChange for changes that the service does not propose.
    """
    settings = run.settings
    commit = await commit_changes(
        run.mirror,
        checkout,
        commit_message(run.job, text),
        Identity(settings.effective_author_name, settings.effective_author_email),
        protected=plan.protected_paths,
        lifted=run.job.lifted_paths,
        executed=plan.setup_scripts,
    )
    if commit is None:
        raise JobFailed("no_changes", "The agent finished without proposing a change.")
    return commit
