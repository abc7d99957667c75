"""Rows of `trackers`, and changes of them with their audit entries."""

from typing import Any, Literal

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.sealing import Sealed
from agentjobs.store.database import Row, Transaction, to_struct
from agentjobs_runtime.clock import now_ms

TrackerKind = Literal["issues", "jira"]
Flavour = Literal["cloud", "data-center"]


class ConfiguredTracker(msgspec.Struct, frozen=True, kw_only=True):
    """All but its token. `account` is there for Jira Cloud alone."""

    id: str
    organization_id: str
    kind: TrackerKind
    name: str
    url: str | None = None
    account: str | None = None
    link_back: bool = False
    error: str | None = None
    checked_at: int | None = None
    created_at: int

    @property
    def flavour(self) -> Flavour | None:
        if self.kind != "jira":
            return None
        return "data-center" if self.account is None else "cloud"


async def insert(
    tx: Transaction, tracker: ConfiguredTracker, sealed: Sealed | None, entry: audit.Entry
) -> None:
    await tx.execute(
        "INSERT INTO trackers (id, organization_id, kind, name, url, account, sealed, key_id,"
        " link_back, created_at) VALUES (:id, :organization_id, :kind, :name, :url, :account,"
        " :sealed, :key_id, :link_back, :created_at)",
        **msgspec.structs.asdict(tracker),
        sealed=None if sealed is None else sealed.data,
        key_id=None if sealed is None else sealed.key_id,
    )
    await audit.write(tx, tracker.organization_id, entry)


async def update(
    tx: Transaction, tracker: ConfiguredTracker, assignments: str, **values: Any
) -> None:
    await tx.execute(
        f"UPDATE trackers SET {assignments} WHERE id = :id AND removed_at IS NULL",
        id=tracker.id,
        **values,
    )


async def record_check(tx: Transaction, tracker_id: str, error: str | None) -> None:
    await tx.execute(
        "UPDATE trackers SET error = :error, checked_at = :now"
        " WHERE id = :id AND removed_at IS NULL",
        id=tracker_id,
        error=error,
        now=now_ms(),
    )


def tracker_from_row(row: Row) -> ConfiguredTracker:
    return to_struct(row, ConfiguredTracker, link_back=bool(row["link_back"]))
