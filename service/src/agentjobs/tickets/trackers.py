"""An organization's trackers. Tokens are stored sealed and never shown.

Contacts no tracker: `resolve` and `verify` do, with the tokens opened here.
"""

from dataclasses import dataclass, field

import msgspec

from agentjobs.connections.validate import validate_credential
from agentjobs.organizations import audit
from agentjobs.organizations.organizations import find_organization
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Database, IntegrityError, Transaction
from agentjobs.tickets import rows as tracker_rows
from agentjobs.tickets.bounds import one_line
from agentjobs.tickets.rows import ConfiguredTracker, Flavour, TrackerKind, tracker_from_row
from agentjobs.tickets.validate import validate_account, validate_name, validate_site
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem

_MAX_ERROR_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTracker:
    """For `issues` only `link_back` applies. An empty name means the kind's name.

    `flavour` is derived from the URL if it is None.
    """

    kind: TrackerKind
    name: str = ""
    url: str = ""
    account: str | None = None
    token: str = field(default="", repr=False)
    flavour: Flavour | None = None
    link_back: bool = False


def draft_from(organization_id: str, new: NewTracker) -> ConfiguredTracker:
    """A tracker that is not stored. Raises Problem."""
    if new.kind == "issues":
        # A fixed name: a repository has one platform and so one place for its issues.
        url, account, name = None, None, "issues"
    else:
        url = validate_site(new.url)
        account = validate_account(new.account, new.flavour, url)
        validate_credential("token", new.token)
        name = validate_name(new.name or new.kind)
    return ConfiguredTracker(
        id=new_id("trk"),
        organization_id=organization_id,
        kind=new.kind,
        name=name,
        url=url,
        account=account,
        link_back=new.link_back,
        created_at=now_ms(),
    )


async def add_tracker(
    db: Database, keys: SealingKeys, organization: str, new: NewTracker
) -> ConfiguredTracker:
    owner = await find_organization(db, organization)
    tracker = draft_from(owner.id, new)
    sealed = (
        None
        if tracker.kind == "issues"
        else keys.seal(new.token, *seal_context(tracker.organization_id, tracker.id))
    )
    entry = audit.entry("tracker.added", tracker.name, kind=tracker.kind, url=tracker.url)
    try:
        await db.transact(tracker_rows.insert, tracker, sealed, entry)
    except IntegrityError:
        raise _name_taken(tracker) from None
    return tracker


async def list_trackers(db: Database, organization: str) -> list[ConfiguredTracker]:
    owner = await find_organization(db, organization)
    return await load_trackers(db, owner.id)


async def load_trackers(db: Database, organization_id: str) -> list[ConfiguredTracker]:
    """Loads trackers in the order in which they are searched: the oldest first."""
    rows = await db.fetch_all(
        "SELECT * FROM trackers WHERE organization_id = :organization_id"
        " AND removed_at IS NULL ORDER BY id",
        organization_id=organization_id,
    )
    return [tracker_from_row(row) for row in rows]


async def find_tracker(
    db: Database | Transaction, organization: str, name: str
) -> ConfiguredTracker:
    """Find a tracker by its name or ID."""
    owner = await find_organization(db, organization)
    row = await db.fetch_one(
        "SELECT * FROM trackers WHERE organization_id = :organization_id"
        " AND (name = :name OR id = :name) AND removed_at IS NULL",
        organization_id=owner.id,
        name=name,
    )
    if row is None:
        raise Problem(
            "tracker_not_found",
            f"The organization {organization!r} has no tracker {name!r}; "
            f"list them with `agentjobs trackers list --org {organization}`.",
        )
    return tracker_from_row(row)


@audit.in_transaction
async def replace_token(
    tx: Transaction, keys: SealingKeys, organization: str, name: str, token: str
) -> ConfiguredTracker:
    tracker = await find_tracker(tx, organization, name)
    check_token(tracker, token)
    sealed = keys.seal(token, *seal_context(tracker.organization_id, tracker.id))
    assignments = "sealed = :sealed, key_id = :key_id, error = NULL, checked_at = NULL"
    await tracker_rows.update(tx, tracker, assignments, sealed=sealed.data, key_id=sealed.key_id)
    await audit.record(tx, tracker.organization_id, "tracker.token_replaced", tracker.name)
    return await find_tracker(tx, organization, tracker.id)


def check_token(tracker: ConfiguredTracker, token: str) -> None:
    """Raises Problem if the token is invalid."""
    if tracker.kind == "issues":
        raise Problem(
            "invalid_credential",
            "Issues are read through the connection to their platform; replace the token of that "
            "connection.",
        )
    validate_credential("token", token)


@audit.in_transaction
async def set_link_back(
    tx: Transaction, organization: str, name: str, link_back: bool
) -> ConfiguredTracker:
    tracker = await find_tracker(tx, organization, name)
    if tracker.link_back != link_back:
        await tracker_rows.update(tx, tracker, "link_back = :link_back", link_back=link_back)
        await audit.record(
            tx, tracker.organization_id, "tracker.changed", tracker.name, link_back=link_back
        )
    return msgspec.structs.replace(tracker, link_back=link_back)


@audit.in_transaction
async def remove_tracker(tx: Transaction, organization: str, name: str) -> ConfiguredTracker:
    """Delete its token too."""
    tracker = await find_tracker(tx, organization, name)
    assignments = "removed_at = :now, sealed = NULL, key_id = NULL"
    await tracker_rows.update(tx, tracker, assignments, now=now_ms())
    await audit.record(tx, tracker.organization_id, "tracker.removed", tracker.name)
    return tracker


async def record_check(db: Database, tracker_id: str, error: str | None = None) -> None:
    """Store the result of a check; None means success."""
    message = None if error is None else one_line(error, _MAX_ERROR_CHARACTERS)
    await db.transact(tracker_rows.record_check, tracker_id, message)


async def open_tracker(
    db: Database, keys: SealingKeys, tracker_id: str
) -> tuple[ConfiguredTracker, str] | None:
    """The tracker and its token, which is empty for issues; None if it was removed.

    Raises Problem if the token cannot be decrypted.
    """
    row = await db.fetch_one(
        "SELECT * FROM trackers WHERE id = :id AND removed_at IS NULL", id=tracker_id
    )
    if row is None:
        return None
    tracker = tracker_from_row(row)
    if row["sealed"] is None:
        return tracker, ""
    name = f"The token of the tracker {tracker.name}"
    return tracker, keys.open_named(
        name, bytes(row["sealed"]), *seal_context(tracker.organization_id, tracker.id)
    )


def _name_taken(tracker: ConfiguredTracker) -> Problem:
    if tracker.kind == "issues":
        return Problem("name_taken", "Issues are already configured as a tracker.")
    return Problem("name_taken", f"A tracker named {tracker.name!r} exists; choose another name.")


def seal_context(organization_id: str, tracker_id: str) -> tuple[str, ...]:
    return ("tracker", organization_id, tracker_id)
