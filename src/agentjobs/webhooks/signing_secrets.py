"""Which secrets of an endpoint sign at a given moment, opened and remembered.

A pending secret takes over by the clock: no write is needed, so that no sender can be late.
"""

from functools import lru_cache

from agentjobs.organizations.sealing import Sealed, SealingKeys
from agentjobs.problems import Problem
from agentjobs.store.database import Row
from agentjobs.webhooks.model import SealedSecrets, Secrets

_REMEMBERED = 4_096


def signing_at(sealed: SealedSecrets, at_ms: int) -> SealedSecrets:
    """With the pending secret as the main one once its time has come."""
    if sealed.pending is None or sealed.promote_at is None or at_ms < sealed.promote_at:
        return sealed
    return SealedSecrets(sealed.pending)


def sealed_secrets(row: Row) -> SealedSecrets:
    """Those of a row of `webhook_endpoints`."""
    pending = row["pending_sealed"]
    return SealedSecrets(
        bytes(row["sealed"]), None if pending is None else bytes(pending), row["promote_at"]
    )


def seal_secret(keys: SealingKeys, organization_id: str, endpoint_id: str, secret: str) -> Sealed:
    return keys.seal(secret, *_context(organization_id, endpoint_id))


class SecretBox:
    """Opens an endpoint's secrets; each only once, because a key may have to be read from disk."""

    def __init__(self, keys: SealingKeys) -> None:
        self._keys = keys
        # By the sealed bytes themselves: what is sealed anew is opened anew.
        self._opened = lru_cache(_REMEMBERED)(self._open)

    def open(
        self, organization_id: str, endpoint_id: str, sealed: SealedSecrets, at_ms: int
    ) -> Secrets:
        """Those that sign at that moment. Raises Problem when one cannot be opened here."""
        signing = signing_at(sealed, at_ms)
        main = self._opened(organization_id, endpoint_id, signing.main)
        if signing.pending is None:
            return Secrets(main)
        return Secrets(main, self._opened(organization_id, endpoint_id, signing.pending))

    def _open(self, organization_id: str, endpoint_id: str, sealed: bytes) -> str:
        try:
            return self._keys.open(sealed, *_context(organization_id, endpoint_id))
        except Problem as problem:
            reason = f"The secret of {endpoint_id} is locked. {problem.message}"
            raise Problem(problem.code, reason) from None


def _context(organization_id: str, endpoint_id: str) -> tuple[str, ...]:
    return ("webhook", organization_id, endpoint_id)
