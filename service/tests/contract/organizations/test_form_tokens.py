"""Each form token is accepted once, on both stores."""

import asyncio

from agentjobs.organizations.form_tokens import return_token, use_token
from agentjobs.organizations.retention import prune_sign_ins
from agentjobs.store.database import Database
from agentjobs_runtime.clock import DAY_MS, now_ms


async def test_a_token_is_used_once_per_form(database: Database) -> None:
    assert await use_token(database, "token", "/jobs")
    assert not await use_token(database, "token", "/jobs")
    assert await use_token(database, "token", "/repos")
    assert await use_token(database, "other", "/jobs")


async def test_only_one_of_several_concurrent_submissions_is_accepted(database: Database) -> None:
    sent = [use_token(database, "token", "/jobs") for _ in range(8)]
    assert sum(await asyncio.gather(*sent)) == 1


async def test_a_returned_token_can_be_used_again(database: Database) -> None:
    await use_token(database, "token", "/jobs")
    await return_token(database, "token", "/jobs")
    assert await use_token(database, "token", "/jobs")


async def test_used_tokens_are_stored_as_long_as_a_session_can_last(database: Database) -> None:
    await use_token(database, "token", "/jobs")
    limits = {"idle_hours": 1.0, "session_days": 2.0}
    assert await prune_sign_ins(database, now_ms() + DAY_MS, **limits) == 0
    assert await prune_sign_ins(database, now_ms() + 3 * DAY_MS, **limits) == 1
