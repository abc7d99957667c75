"""From a finished tree to a pull request: commit, push, open, or adopt what was pushed before.

Runs no agent. Everything it writes outside happens under the job's own credential.
"""

from dataclasses import dataclass
from pathlib import Path

from agentjobs.forges.protocol import Forge, PullRequestRequest, RepoAddress
from agentjobs.git.identity import Identity
from agentjobs.git.process import git
from agentjobs.git.remote import Remote
from agentjobs.jobs.claim import ClaimedJob
from agentjobs.jobs.log_writer import LogWriter
from agentjobs.jobs.outcomes import Completed, Stopped
from agentjobs.jobs.patience import patiently
from agentjobs.jobs.plan import RunPlan
from agentjobs.jobs.pull_text import PullText, commit_message, from_commit_message, pull_body
from agentjobs.jobs.tools import JobTools
from agentjobs.jobs.verification import Verification
from agentjobs.settings import Settings
from agentjobs.workspace.checkout import Checkout
from agentjobs.workspace.errors import PushRejected
from agentjobs.workspace.publish import branch_head, commit_changes, push


@dataclass(frozen=True, slots=True)
class Proposal:
    job: ClaimedJob
    tools: JobTools
    log: LogWriter
    forge: Forge
    address: RepoAddress
    remote: Remote

    @property
    def _mirror(self) -> Path:
        return self.tools.mirrors.path(self.job.repo_id)

    async def pushed_before(self) -> str | None:
        """An earlier attempt may have got as far as its branch; that work is not done twice."""
        if not self.job.was_started_before:
            return None
        return await self._own_head()

    async def commit(self, checkout: Checkout, text: PullText, plan: RunPlan) -> str:
        """Only in the mirror yet. What comes after it in the tree is not part of it."""
        author, committer = _identities(self.tools.context.settings)
        commit = await commit_changes(
            self._mirror,
            checkout,
            commit_message(self.job, text),
            author=author,
            committer=committer,
            protected=plan.protected_paths,
            lifted=self.job.lifted_paths,
        )
        if commit is None:
            raise Stopped("no_changes", "The agent finished without proposing a change.")
        return commit

    async def push(self, commit: str) -> None:
        try:
            await self._push(commit, expected=None)
        except PushRejected:
            # Only this job writes its branch: what is there is its own, from a push whose end
            # it did not learn.
            own = await self._own_head()
            if own is None:
                raise
            await self._push(commit, expected=own)
        self.log.say(f"pushed {commit[:12]} to {self.job.branch}")

    async def words_of(self, pushed: str) -> PullText:
        """Those of an earlier attempt, from its commit."""
        mirrors = self.tools.mirrors
        await mirrors.commit_of(
            self.job.repo_id, self.remote, branch=self.job.branch, known_head=pushed
        )
        shown = await git("show", "-s", "--format=%B", pushed, git_dir=self._mirror)
        return from_commit_message(shown.stdout.decode(errors="replace"))

    async def open(
        self,
        base: str,
        commit: str,
        text: PullText,
        plan: RunPlan,
        verification: Verification | None,
    ) -> Completed:
        is_unproven = verification is not None and not verification.passed
        pull = await self.forge.open_pull_request(
            self.address,
            self.job.credential,
            PullRequestRequest(
                head_branch=self.job.branch,
                base_branch=self.job.base_branch,
                head_commit=commit,
                base_commit=base,
                title=text.title,
                body=pull_body(self.job, text, verification),
                draft=plan.draft or is_unproven,
                reviewers=plan.reviewers,
            ),
        )
        self.log.say(f"opened pull request #{pull.number}: {pull.url}")
        return Completed(pull.url, pull.number, commit, pull.draft)

    async def _own_head(self) -> str | None:
        return await patiently(lambda: branch_head(self.remote, self.job.branch), self.log.say)

    async def _push(self, commit: str, expected: str | None) -> None:
        await patiently(
            lambda: push(self._mirror, commit, self.job.branch, self.remote, expected=expected),
            self.log.say,
        )


def _identities(settings: Settings) -> tuple[Identity, Identity]:
    author = Identity(settings.author_name, settings.author_email)
    committer = Identity(
        settings.committer_name or settings.author_name,
        settings.committer_email or settings.author_email,
    )
    return author, committer
