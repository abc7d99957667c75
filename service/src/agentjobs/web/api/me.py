"""`GET /me`: whose key this is, and what it may do."""

from typing import Annotated

import msgspec
from starlette.responses import Response

from agentjobs.organizations.api_keys import SCOPES, find_key
from agentjobs.organizations.budgets import read_budget
from agentjobs.web.api.auth import unauthorized
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs_runtime.clock import iso_utc_or_none
from agentjobs_runtime.json_fields import Timestamp, doc, known_values
from agentjobs_runtime.money import usd


class OrganizationView(msgspec.Struct, frozen=True):
    id: Annotated[str, doc("Organization identifier.")]
    name: Annotated[str, doc("Unique name.")]


class PlanView(msgspec.Struct, frozen=True):
    name: Annotated[str, doc("The organization's plan.")]
    concurrent_jobs: Annotated[int, doc("How many of its jobs may run at once.")]


class KeyView(msgspec.Struct, frozen=True):
    id: Annotated[str, doc("Key identifier.")]
    name: Annotated[str, doc("What the key is used for.")]
    scopes: Annotated[
        tuple[Annotated[str, known_values("A scope.", SCOPES)], ...],
        doc("What the key may do: `read`, or `jobs` and `pulls`, which include it."),
    ]
    expires_at: Annotated[Timestamp | None, doc("When the key expires; null if it never does.")]


class LimitsView(msgspec.Struct, frozen=True, kw_only=True):
    queued_jobs: Annotated[int, doc("How many jobs of the organization may be queued.")]
    open_requests: Annotated[
        int, doc("How many log streams and long polls the key may keep open per server.")
    ]
    rate_limit_per_second: Annotated[
        float | None, doc("Requests per second and key; null if the rate is not limited.")
    ]
    rate_limit_burst: Annotated[
        int | None, doc("Requests that a key may send at once; null if the rate is not limited.")
    ]
    job_budget_usd: Annotated[
        float | None, doc("What models may cost per job, in US dollars; null without a limit.")
    ]
    daily_budget_usd: Annotated[
        float | None,
        doc("What models may cost per day (UTC), in US dollars; null without a limit."),
    ]


class CallerView(msgspec.Struct, frozen=True, kw_only=True):
    organization: Annotated[OrganizationView, doc("The organization of the key.")]
    plan: Annotated[PlanView, doc("The organization's plan.")]
    key: Annotated[KeyView, doc("The key of this request.")]
    limits: Annotated[LimitsView, doc("What the organization and the key are limited to.")]


async def show(call: Call) -> Response:
    context, caller = call.context, call.caller
    key = await find_key(context.db, caller.organization_id, caller.key_id)
    budget = await read_budget(context.db, caller.organization_id)
    if key is None or budget is None:
        raise unauthorized()
    settings = context.settings
    is_limited = settings.rate_limit_per_second > 0
    view = CallerView(
        organization=OrganizationView(caller.organization_id, caller.organization),
        plan=PlanView(caller.plan, context.plans.concurrent_jobs(caller.plan)),
        key=KeyView(key.id, key.name, key.scopes, iso_utc_or_none(key.expires_at)),
        limits=LimitsView(
            queued_jobs=settings.queue_limit,
            open_requests=settings.streams_per_key,
            rate_limit_per_second=settings.rate_limit_per_second if is_limited else None,
            rate_limit_burst=settings.rate_limit_burst if is_limited else None,
            job_budget_usd=usd(budget.job_nanousd),
            daily_budget_usd=usd(budget.daily_nanousd),
        ),
    )
    return Reply(200, view)
