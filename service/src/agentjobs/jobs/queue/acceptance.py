"""Whether a job is accepted: its repository, agent, plan, budget and queue limit."""

from collections.abc import Mapping, Set

import msgspec

from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.queue.claim import is_on_worker
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.lengths import QueueLengths
from agentjobs.organizations.authentication import Caller
from agentjobs.store.batch_statement import BatchStatement
from agentjobs.store.database import Transaction, column_values
from agentjobs.webhooks.events import ENDPOINTS_OF_ORGANIZATION
from agentjobs_runtime.money import nanousd, usd_text
from agentjobs_runtime.problems import Problem

_INDEXING_RETRY_SECONDS = 5
_QUEUE_FULL_RETRY_SECONDS = 30


class Admission(msgspec.Struct, frozen=True):
    """What the checks read. `repo_id` is None when the repository is not connected."""

    repo_id: str | None
    index_status: str | None
    # A JSON list.
    required_tags: str | None
    job_budget_nanousd: int | None
    queued_jobs: int
    active_jobs: int
    # Since when the organization is paused.
    paused_at: int | None
    # The organization's active endpoints: see `decode_endpoints`.
    endpoints: str | None = None


_EXPRESSIONS = {
    "repo_id": "r.id",
    "index_status": "CASE WHEN r.id IS NOT NULL THEN COALESCE((SELECT i.status FROM repo_index i"
    " WHERE i.repo_id = r.id), 'indexing') END",
    "required_tags": "r.required_tags",
    "job_budget_nanousd": "o.job_budget_nanousd",
    "paused_at": "o.paused_at",
    "endpoints": ENDPOINTS_OF_ORGANIZATION,
    # Without the order PostgreSQL may read the waiting jobs of all organizations, by their agents,
    # until the table is analyzed.
    "queued_jobs": "COALESCE({queued_jobs}, (SELECT COUNT(*) FROM"
    " (SELECT 1 FROM job_queue /*sqlite INDEXED BY job_queue_waiting_in_order */"
    " WHERE lease_owner IS NULL AND organization_id = o.id"
    " /*postgresql ORDER BY queue_order, job_id */) AS waiting))",
    "active_jobs": "(SELECT COUNT(*) FROM job_queue a /*sqlite INDEXED BY job_queue_leased */"
    f" WHERE {is_on_worker('a')} AND a.organization_id = o.id)",
}
_COLUMNS = ", ".join(_EXPRESSIONS[name] for name in Admission.__struct_fields__)
_ADMISSIONS = BatchStatement(
    {"organization_id": "text", "repo": "text", "queued_jobs": "bigint"},
    one=f"SELECT o.id, :repo, {_COLUMNS.format(queued_jobs=':queued_jobs')} FROM organizations o"
    " LEFT JOIN repos r ON r.organization_id = o.id AND r.full_name = :repo"
    "  AND r.disconnected_at IS NULL WHERE o.id = :organization_id",
    # OFFSET keeps PostgreSQL from choosing another join: before it has statistics, it would read
    # all organizations and repositories for a few rows.
    many=f"SELECT o.id, v.repo, {_COLUMNS.format(queued_jobs='v.queued_jobs')} FROM {{rows}}"
    " CROSS JOIN LATERAL"
    " (SELECT * FROM organizations WHERE id = v.organization_id OFFSET 0) AS o"
    " LEFT JOIN LATERAL (SELECT * FROM repos WHERE organization_id = v.organization_id"
    "  AND full_name = v.repo AND disconnected_at IS NULL OFFSET 0) AS r ON TRUE",
)

# An organization's identifier and the full name of a repository.
RepoName = tuple[str, str]


async def load_admission(tx: Transaction, organization_id: str, repo: str) -> Admission:
    admissions = await load_admissions(tx, {(organization_id, repo)})
    return require_admission(admissions, (organization_id, repo))


async def load_admissions(
    tx: Transaction, repos: Set[RepoName], lengths: QueueLengths | None = None
) -> dict[RepoName, Admission]:
    """The repositories and their organizations' queues, in one round trip on PostgreSQL.

    Jobs are counted unless `lengths` knows how many there are.
    """
    known = {} if lengths is None else {repo: lengths.get(repo) for repo, _ in repos}
    rows = await _ADMISSIONS.fetch(
        tx,
        [
            {
                "organization_id": organization_id,
                "repo": repo,
                "queued_jobs": known.get(organization_id),
            }
            for organization_id, repo in repos
        ],
    )
    admissions = {}
    for row in rows:
        organization_id, repo, *values = column_values(row)
        admission = admissions[organization_id, repo] = Admission(*values)
        if lengths is not None and known[organization_id] is None:
            lengths.set(organization_id, admission.queued_jobs)
    return admissions


def require_admission(admissions: Mapping[RepoName, Admission], repo: RepoName) -> Admission:
    if repo not in admissions:
        raise Problem("unauthorized", "The organization of this key no longer exists.")
    return admissions[repo]


def check_acceptable(
    context: JobsContext, caller: Caller, body: CreateJobRequest, admission: Admission
) -> str:
    """Return the repository's identifier, or raise the first Problem in the documented order."""
    _check_cost(body, admission.job_budget_nanousd)
    repo_id = admission.repo_id
    if repo_id is None:
        raise Problem(
            "repo_not_connected",
            f"The repository {body.repo!r} is not connected to this organization; "
            "GET /repos lists those that are.",
        )
    _check_agent(context, caller, body.agent)
    if admission.index_status != "ready":
        raise Problem(
            "repo_indexing",
            f"The repository {body.repo!r} is still being indexed; "
            "try again once GET /repos shows it as ready.",
            retry_after_seconds=_INDEXING_RETRY_SECONDS,
        )
    queue_limit = context.settings.queue_limit
    if admission.queued_jobs >= queue_limit:
        raise Problem(
            "queue_full",
            f"This organization already has {queue_limit} queued jobs; "
            "wait until some have started, or cancel some.",
            retry_after_seconds=_QUEUE_FULL_RETRY_SECONDS,
        )
    return repo_id


def _check_cost(body: CreateJobRequest, budget_nanousd: int | None) -> None:
    if body.config_override is None or budget_nanousd is None:
        return
    max_cost = nanousd(body.config_override.get("max_cost_usd"))
    if max_cost is not None and max_cost > budget_nanousd:
        message = f"must be at most {usd_text(budget_nanousd)}, the organization's limit"
        raise Problem(
            "validation_failed",
            f"config_override.max_cost_usd {message}.",
            details=[{"field": "config_override.max_cost_usd", "message": message}],
        )


def _check_agent(context: JobsContext, caller: Caller, agent_id: str) -> None:
    agent = context.catalog.get(agent_id)
    if agent is None:
        raise Problem(
            "unknown_agent", f"There is no agent {agent_id!r}; GET /agents lists the agents."
        )
    if not context.plans.allows(caller.plan, agent.plan_required):
        raise Problem(
            "plan_required",
            f"The agent {agent.id!r} needs the plan {agent.plan_required!r}; "
            f"this organization is on {caller.plan!r}.",
            details={"plan_required": agent.plan_required},
        )
