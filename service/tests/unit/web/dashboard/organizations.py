"""Two sample organizations, created once and copied for each test."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentjobs.organizations.audit import Actor, acting_as
from agentjobs.organizations.memberships import add_member
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.organizations.sessions import Origin, list_sessions, start_session
from service.tests.unit.web.dashboard.index_data import insert_advisories
from service.tests.unit.web.dashboard.repository import Repository, TextMaker, plain_text
from service.tests.unit.web.dashboard.sample_data import SampleIds, create_samples, insert_worker
from tests.support.jobs import JobHarness
from tests.support.users import create_user, write

ROLES = ("viewer", "member", "admin")


@dataclass(frozen=True)
class SampleOrganizations:
    """`tokens` holds session tokens by organization and role."""

    tokens: Mapping[tuple[str, str], str]
    samples: Mapping[str, SampleIds]


async def create_sample_organizations(
    harness: JobHarness, repository: Repository, make_text: TextMaker = plain_text
) -> SampleOrganizations:
    settings = harness.context.settings
    keys = SealingKeys.load(settings)
    tokens, samples = {}, {}
    for name in ("acme", "other"):
        caller = await harness.organization(name)
        with acting_as(Actor("user", make_text("Ada"), "usr_ada", make_text("192.0.2.1"))):
            members = {}
            for role in ROLES:
                user = await create_user(harness.db, f"{role}@{name}.example", name=role.title())
                await add_member(harness.db, caller.organization_id, user.id, role)
                origin = Origin("127.0.0.1", make_text("Browser/1.0"))
                tokens[name, role] = await start_session(harness.db, settings, user.id, origin)
                members[role] = user.id
            spare = await create_user(harness.db, f"spare@{name}.example", name="Spare")
            await add_member(harness.db, caller.organization_id, spare.id, "viewer")
            await start_session(harness.db, settings, spare.id, Origin("127.0.0.1", "Browser/2.0"))
            (session,) = await list_sessions(harness.db, spare.id)
            await _rename(harness, [*members.values(), spare.id], make_text)
            sample_ids = await create_samples(
                harness, caller, repository, keys, spare.id, make_text
            )
            samples[name] = replace(sample_ids, session=session.id)
    await insert_worker(harness, make_text)
    await insert_advisories(harness, make_text)
    return SampleOrganizations(tokens, samples)


async def _rename(harness: JobHarness, users: list[str], make_text: TextMaker) -> None:
    for user in users:
        await write(
            harness.db,
            "UPDATE users SET name = :text WHERE id = :id",
            id=user,
            text=make_text("Grace"),
        )
