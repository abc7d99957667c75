"""Two organizations with one of everything in them: made once, then copied for each test."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentjobs.organizations.audit import Actor, acting_as
from agentjobs.organizations.memberships import add_member
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.organizations.sessions import Origin, list_sessions, start_session
from agentjobs.organizations.users import create_user
from tests.support.jobs import JobHarness
from tests.support.users import write
from tests.unit.web.dashboard.index_data import put_advisories
from tests.unit.web.dashboard.repository import Repository, Say, plainly
from tests.unit.web.dashboard.sample_data import Things, put_worker, things_of

ROLES = ("viewer", "member", "admin")


@dataclass(frozen=True)
class House:
    """`tokens` are of sessions: by organization and role."""

    tokens: Mapping[tuple[str, str], str]
    things: Mapping[str, Things]


async def furnish(harness: JobHarness, repository: Repository, say: Say = plainly) -> House:
    settings = harness.context.settings
    keys = SealingKeys.load(settings)
    tokens, things = {}, {}
    for name in ("acme", "other"):
        caller = await harness.organization(name)
        with acting_as(Actor("user", say("Ada"), "usr_ada", say("192.0.2.1"))):
            members = {}
            for role in ROLES:
                user = await create_user(harness.db, f"{role}@{name}.example", name=role.title())
                await add_member(harness.db, caller.organization_id, user.id, role)
                origin = Origin("127.0.0.1", say("Browser/1.0"))
                tokens[name, role] = await start_session(harness.db, settings, user.id, origin)
                members[role] = user.id
            spare = await create_user(harness.db, f"spare@{name}.example", name="Spare")
            await add_member(harness.db, caller.organization_id, spare.id, "viewer")
            await start_session(harness.db, settings, spare.id, Origin("127.0.0.1", "Browser/2.0"))
            (session,) = await list_sessions(harness.db, spare.id)
            await _rename(harness, [*members.values(), spare.id], say)
            made = await things_of(harness, caller, repository, keys, spare.id, say)
            things[name] = replace(made, session=session.id)
    await put_worker(harness, say)
    await put_advisories(harness, say)
    return House(tokens, things)


async def _rename(harness: JobHarness, users: list[str], say: Say) -> None:
    for user in users:
        await write(
            harness.db, "UPDATE users SET name = :text WHERE id = :id", id=user, text=say("Grace")
        )
