"""The network policy of one job: its host patterns first, then the address guard.

Owns the messages of refusals; the proxy sends them to the client.
"""

from collections.abc import Callable, Sequence

from agentjobs_runtime.outbound.guard.addresses import AllowList, BlockedAddress
from agentjobs_runtime.outbound.guard.dial import Resolve, Streams, Unreachable, dial
from agentjobs_runtime.outbound.guard.host_patterns import HostPattern, bracket_ipv6, is_permitted

MAX_REPORTS = 50
# In the message about a host whose addresses the guard refuses.
BLOCKED = "is blocked"


class ConnectionRefused(Exception):
    """The policy or the host refused; `status` is the HTTP status for the client."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class EgressPolicy:
    """Without `patterns`, any host may be reached whose address the guard allows."""

    def __init__(
        self,
        patterns: Sequence[HostPattern] | None,
        allowed: AllowList,
        on_refused: Callable[[str], None],
        resolve: Resolve,
    ) -> None:
        self._patterns = patterns
        self._allowed = allowed
        self._on_refused = on_refused
        self._resolve = resolve
        self._reported: set[str] = set()

    async def connect(self, host: str, port: int) -> Streams:
        """Raises ConnectionRefused. `host` must be normalized: it is resolved as it is."""
        target = f"{bracket_ipv6(host)}:{port}"
        if self._patterns is not None and not is_permitted(self._patterns, host, port):
            raise self._refuse(403, target, f"{target} is not in this agent's network list")
        try:
            return await dial(host, port, self._allowed, self._resolve)
        except BlockedAddress as error:
            raise self._refuse(403, target, f"{target} {BLOCKED}: {error}") from None
        except Unreachable as error:
            status = 504 if error.is_timeout else 502
            reason = f"{target} could not be reached: {error}"
            raise self._refuse(status, target, reason) from None

    def report(self, key: str, reason: str) -> None:
        """Reports each key once and only so many keys, because agents choose them."""
        if key in self._reported or len(self._reported) > MAX_REPORTS:
            return
        self._reported.add(key)
        is_last = len(self._reported) > MAX_REPORTS
        self._on_refused("further refused connections are not logged" if is_last else reason)

    def _refuse(self, status: int, target: str, reason: str) -> ConnectionRefused:
        self.report(target, reason)
        return ConnectionRefused(status, reason)
