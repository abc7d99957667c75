"""Which findings a list has, as conditions of SQL on the tables `findings f`, `repos r` and
`finding_decisions d`."""

from typing import Any

import msgspec

from agentjobs.store.like_pattern import contains_pattern
from agentjobs_dependencies.model import Imported
from agentjobs_runtime.clock import now_ms

_SEARCH = (
    " AND (lower(f.name) LIKE :pattern ESCAPE '!' OR lower(f.advisory_ids) LIKE :pattern"
    " ESCAPE '!' OR lower(r.full_name) LIKE :pattern ESCAPE '!')"
)


class FindingFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None matches everything. `search` matches a part of the package, its advisories or the
    repository; `decided` is true for what is dismissed or snoozed."""

    id: str | None = None
    repo_id: str | None = None
    ecosystem: str | None = None
    name: str | None = None
    severity: str | None = None
    search: str | None = None
    fixture: bool | None = None
    imported: Imported | None = None
    decided: bool | None = None

    @property
    def conditions(self) -> str:
        clauses = (
            (" AND f.id = :id", self.id),
            (" AND f.repo_id = :repo_id", self.repo_id),
            (" AND f.ecosystem = :ecosystem", self.ecosystem),
            (" AND f.name = :name", self.name),
            (" AND f.severity = :severity", self.severity),
            (_SEARCH, self.search),
            (" AND f.fixture = :fixture", None if self.fixture is None else "yes"),
            (" AND f.imported = :imported", self.imported),
            (" AND d.state IS NOT NULL", self.decided),
            (" AND d.state IS NULL", self.decided is False),
        )
        return "".join(clause for clause, value in clauses if value)

    @property
    def parameters(self) -> dict[str, Any]:
        fields = msgspec.structs.asdict(self)
        pattern = contains_pattern((fields.pop("search") or "").strip().lower())
        return {**fields, "pattern": pattern, "now": now_ms()}
