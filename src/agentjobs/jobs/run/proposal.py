"""From a finished tree to a pull request: commit, push, open, or adopt what was pushed before.

Runs no agent. Everything it writes outside happens under the job's own credential.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from agentjobs.forges.protocol import (
    Forge,
    ForgeError,
    PullRequest,
    PullRequestRequest,
    RepoAddress,
)
from agentjobs.git.identity import Identity
from agentjobs.git.process import git
from agentjobs.git.remote import Remote
from agentjobs.jobs.logs.writer import LogWriter
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.queue.credentials import may_write_branch
from agentjobs.jobs.run.outcomes import Completed, Stopped
from agentjobs.jobs.run.own_commit import own_commit
from agentjobs.jobs.run.plan import RunPlan
from agentjobs.jobs.run.pull_text import PullText, commit_message, from_commit_message, pull_body
from agentjobs.jobs.run.retry import as_long_as_leased, patiently
from agentjobs.jobs.run.tools import JobTools
from agentjobs.jobs.run.verification import Verification
from agentjobs.jobs.views.listing import cost_of
from agentjobs.pulls.platform_pulls import record_pull
from agentjobs.repos.codeowners import find_change_owners
from agentjobs.settings import Settings
from agentjobs.workspace.checkout import Checkout
from agentjobs.workspace.errors import PushRejected
from agentjobs.workspace.publish import branch_head, commit_changes, push


@dataclass(frozen=True, slots=True)
class Pushed:
    """What an earlier attempt left on the branch, made from `base`; people may have gone on."""

    base: str
    commit: str
    head: str


@dataclass(frozen=True, slots=True)
class Proposal:
    job: ClaimedJob
    tools: JobTools
    log: LogWriter
    forge: Forge
    address: RepoAddress

    @property
    def _mirror(self) -> Path:
        return self.tools.mirrors.path(self.job.repo_id)

    async def fetched(self, branch: str, known_head: str | None) -> str:
        """The commit of a branch, in the mirror. Raises what the mirror raises, and ForgeError."""

        async def fetch() -> str:
            async with self._reach() as remote:
                return await self.tools.mirrors.commit_of(
                    self.job.repo_id, remote, branch=branch, known_head=known_head
                )

        return await patiently(fetch, self.log.say)

    async def pushed_before(self, base: str) -> Pushed | None:
        """An earlier attempt may have got as far as its branch; that work is not done twice."""
        if not self.job.was_started_before:
            return None
        if self.job.follows is None:
            head = await self._head()
            return None if head is None else Pushed(base, head, head)
        # Here the branch was there before the job, so that its base is the branch's head.
        own = await own_commit(self._mirror, base, self.job)
        return None if own is None else Pushed(own.base, own.commit, base)

    async def merged_before(self) -> Completed | None:
        """The pull request of an earlier attempt, if somebody merged it and removed its branch."""
        if not (self._is_elsewhere and self.job.was_started_before and self.job.follows is None):
            return None
        row = await self.tools.context.db.fetch_one(
            "SELECT number, url, head_commit FROM pulls"
            " WHERE repo_id = :repo_id AND head_branch = :branch",
            repo_id=self.job.repo_id,
            branch=self.job.branch,
        )
        pull = (
            None if row is None else await self.forge.pull_of_branch(self.address, self.job.branch)
        )
        if row is None or pull is None or (pull.number, pull.state) != (row["number"], "merged"):
            return None
        return Completed(row["url"] or "", pull.number, row["head_commit"], draft=False)

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

    async def push(self, commit: str, base: str) -> None:
        follows = self.job.follows is not None
        try:
            await self._push(commit, expected=base if follows else None)
        except PushRejected:
            # A push whose end it did not learn may have left this job's own there: nobody else
            # writes a branch that it made, and on an earlier job's its commits are told by name.
            own = await (self._own_since(base, commit) if follows else self._head())
            if own is None:
                raise
            if own != commit:
                await self._push(commit, expected=own)
        self.log.say(f"pushed {commit[:12]} to {self.job.branch}")

    async def words_of(self, pushed: str) -> PullText:
        """Those of an earlier attempt, from its commit."""
        await self.fetched(self.job.branch, pushed)
        shown = await git("show", "-s", "--format=%B", pushed, git_dir=self._mirror)
        return from_commit_message(shown.stdout.decode(errors="replace"))

    async def open(
        self,
        base: str,
        commit: str,
        text: PullText,
        plan: RunPlan,
        verification: Verification | None,
        head: str | None = None,
    ) -> Completed:
        """`head` is where the branch is, if it is beyond the commit."""
        is_unproven = verification is not None and not verification.passed
        follows = self.job.follows is not None
        request = PullRequestRequest(
            head_branch=self.job.branch,
            base_branch=self.job.base_branch,
            head_commit=head or commit,
            base_commit=base,
            title=text.title,
            body=await self._body(text, verification),
            # Whether to open a draft was decided when the pull request was opened.
            draft=is_unproven or (plan.draft and not follows),
            reviewers=plan.reviewers or await self._code_owners(base, commit),
            labels=plan.labels,
            goes_on=follows,
        )
        pull = await self._opened(request)
        done = "went on with" if follows else "opened"
        self.log.say(f"{done} pull request #{pull.number}: {pull.url}")
        for note in pull.notes:
            self.log.say(note)
        return Completed(pull.url, pull.number, commit, pull.draft)

    async def _opened(self, request: PullRequestRequest) -> PullRequest:
        await self._check_claim()
        pull = await self.forge.open_pull_request(self.address, self.job.credential, request)
        if self._is_elsewhere:
            db = self.tools.context.db
            await as_long_as_leased(
                lambda: db.transact(record_pull, self.job.repo_id, request, pull),
                self.tools.context.settings.lease_seconds,
            )
        return pull

    async def _body(self, text: PullText, verification: Verification | None) -> str:
        context = self.tools.context
        row = await context.db.fetch_one("SELECT usage FROM jobs WHERE id = :id", id=self.job.id)
        return pull_body(
            self.job,
            text,
            verification,
            job_url=f"{context.settings.effective_public_url}/jobs/{self.job.id}",
            cost_usd=cost_of(row["usage"]) if row is not None else None,
        )

    async def _code_owners(self, base: str, commit: str) -> tuple[str, ...]:
        """A platform of ours has nobody to ask."""
        if not self._is_elsewhere:
            return ()
        await self.fetched(self.job.branch, commit)
        return await find_change_owners(self._mirror, base, commit, self.job.platform, self.log.say)

    @property
    def _is_elsewhere(self) -> bool:
        return self.job.connection_id is not None

    async def _check_claim(self) -> None:
        """A host elsewhere takes our word for it: so the word must be true now."""
        if self._is_elsewhere and not await self.tools.context.db.transact(
            may_write_branch, self.job.repo_id, self.job.branch, self.job.credential
        ):
            raise ForgeError("The credential of this job is not valid any more.")

    async def _own_since(self, base: str, commit: str) -> str | None:
        """This job's commit on a branch that others write too; None when it is as it was seen."""
        head = await self._head()
        if head == base:
            return None
        if head is not None:
            await self.fetched(self.job.branch, head)
            own = await own_commit(self._mirror, head, self.job)
            if own is not None and own.commit in (head, commit):
                return own.commit
        now = "is gone" if head is None else f"is at {head[:12]}, not at {base[:12]}"
        raise PushRejected(
            f"the branch {self.job.branch!r} moved while the agent worked: it {now} any more; "
            "start another follow-up to go on from there"
        )

    def _reach(self) -> AbstractAsyncContextManager[Remote]:
        """Anew for each operation: a right may run out while an agent works."""
        return self.forge.open_remote(self.address, self.job.credential)

    async def _head(self) -> str | None:
        async def ask() -> str | None:
            async with self._reach() as remote:
                return await branch_head(remote, self.job.branch)

        return await patiently(ask, self.log.say)

    async def _push(self, commit: str, expected: str | None) -> None:
        async def send() -> None:
            await self._check_claim()
            async with self._reach() as remote:
                await push(self._mirror, commit, self.job.branch, remote, expected=expected)

        await patiently(send, self.log.say)


def _identities(settings: Settings) -> tuple[Identity, Identity]:
    author = Identity(settings.author_name, settings.author_email)
    committer = Identity(
        settings.committer_name or settings.author_name,
        settings.committer_email or settings.author_email,
    )
    return author, committer
