"""How long this process has been in contact with the database: leases of others may have expired
only because nobody could renew them."""

from agentjobs_runtime.clock import SECOND_MS, elapsed_ms

# Longer than the interval of the loop that notes the contact, and shorter than any outage that
# lets a lease of the default length expire.
MAX_GAP_MS = 4 * SECOND_MS


class Contact:
    """An unbroken contact, noted whenever the database has answered."""

    def __init__(self) -> None:
        self._since = self._noted_at = elapsed_ms()

    def note(self) -> None:
        now = elapsed_ms()
        if now - self._noted_at > MAX_GAP_MS:
            self._since = now
        self._noted_at = now

    def lose(self) -> None:
        self._since = self._noted_at = elapsed_ms()

    def has_lasted(self, duration_ms: int) -> bool:
        """Ask it after the answer on which a decision depends, since that may have come late."""
        self.note()
        return self._noted_at - self._since >= duration_ms
