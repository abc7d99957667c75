"""Decides where one job may go, and goes there for it: its list first, then the address guard.

Owns the words of a refusal; how they reach the client is the proxy's.
"""

from collections.abc import Callable, Sequence

from agentjobs.outbound.guard.addresses import AllowList, BlockedAddress
from agentjobs.outbound.guard.dial import Resolve, Streams, Unreachable, dial
from agentjobs.outbound.guard.host_patterns import Pattern, bracket_ipv6, is_permitted

MOST_NOTES = 50


class Refusal(Exception):
    """The way is closed; with the HTTP status that says so."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Gate:
    def __init__(
        self,
        patterns: Sequence[Pattern],
        allowed: AllowList,
        on_refused: Callable[[str], None],
        resolve: Resolve,
    ) -> None:
        self._patterns = tuple(patterns)
        self._allowed = allowed
        self._on_refused = on_refused
        self._resolve = resolve
        self._noted: set[str] = set()

    async def reach(self, host: str, port: int) -> Streams:
        """Raises Refusal. `host` as `normalize_host` gives it; nothing else is ever looked up."""
        target = f"{bracket_ipv6(host)}:{port}"
        if not is_permitted(self._patterns, host, port):
            raise self._refusal(403, target, f"{target} is not in this agent's network list")
        try:
            return await dial(host, port, self._allowed, self._resolve)
        except BlockedAddress as error:
            raise self._refusal(403, target, f"{target} is blocked: {error}") from None
        except Unreachable as error:
            status = 504 if error.is_late else 502
            reason = f"{target} could not be reached: {error}"
            raise self._refusal(status, target, reason) from None

    def note(self, key: str, reason: str) -> None:
        """Each thing once, and not without end: the names come from the agent."""
        if key in self._noted or len(self._noted) > MOST_NOTES:
            return
        self._noted.add(key)
        is_last = len(self._noted) > MOST_NOTES
        self._on_refused("further refused connections are not shown" if is_last else reason)

    def _refusal(self, status: int, target: str, reason: str) -> Refusal:
        self.note(target, reason)
        return Refusal(status, reason)
