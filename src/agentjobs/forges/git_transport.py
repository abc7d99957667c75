"""How git gets to a platform: through the guard, by https; by plain http only where the operator
says so. Knows no platform; what is shown there is given to it."""

import contextlib
import ipaddress
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

from agentjobs.forges.protocol import ForgeError
from agentjobs.git.remote import Remote
from agentjobs.outbound.egress.tunnel import open_tunnel
from agentjobs.outbound.guard.addresses import AllowList, BlockedAddress, filter_permitted
from agentjobs.outbound.guard.host_patterns import bracket_ipv6, normalize_host
from agentjobs.outbound.guard.resolver import Lookup, new_job_resolver, system_lookup

MOST_BYTES = 10 * 2**30
_PORTS = {"https": 443, "http": 80}


class GitTransport:
    """`certificates` is a file with all authorities git shall trust; None: the system's."""

    def __init__(
        self,
        allowed: AllowList,
        certificates: Path | None = None,
        *,
        most_bytes: int = MOST_BYTES,
        lookup: Lookup = system_lookup,
    ) -> None:
        self._allowed = allowed
        self._certificates = certificates
        self._most_bytes = most_bytes
        self._lookup = lookup

    @contextlib.asynccontextmanager
    async def to(self, url: str, authorization: str) -> AsyncIterator[Remote]:
        """`authorization` is the whole value of the header.

        Raises ForgeError, also in the place of what git made of a way that was closed to it.
        """
        scheme, host, port = _target(url)
        if scheme == "http":
            pinned = await self._pinned(host, port)
            yield Remote(url, authorization, pinned=pinned)
            return
        async with open_tunnel(
            host, port, self._allowed, max_bytes=self._most_bytes, lookup=self._lookup
        ) as (tunnel, proxy):
            try:
                yield Remote(url, authorization, proxy, self._certificates)
            except Exception:
                if tunnel.refusal is None:
                    raise
                raise _closed(tunnel.refusal, may_pass=tunnel.is_temporary) from None

    async def refuse_open_http(self, url: str) -> None:
        """Raises ForgeError if it is plain http to any address that the operator does not list."""
        scheme, host, port = _target(url)
        if scheme == "http":
            await self._pinned(host, port)

    async def _pinned(self, host: str, port: int) -> str | None:
        """None: the host is an address itself."""
        try:
            found = await new_job_resolver(self._lookup).resolve(host)
        except (OSError, UnicodeError) as error:
            reason = f"The name {host} cannot be resolved ({error})."
            raise ForgeError(reason, "away") from None
        if not found:
            raise ForgeError(f"The name {host} has no address.", "away")
        for address in found:
            self._refuse_unlisted(host, address)
        if found == [host]:
            return None
        return f"{host}:{port}:{','.join(bracket_ipv6(address) for address in found)}"

    def _refuse_unlisted(self, host: str, address: str) -> None:
        try:
            filter_permitted(host, [address], self._allowed.without_public())
        except BlockedAddress:
            setting = self._allowed.setting
            raise ForgeError(
                f"http://{bracket_ipv6(host)} would show the credential to everybody on the way: "
                f"use https, or ask the operator to list {_shown(address)} in {setting}."
            ) from None


def _closed(reason: str, *, may_pass: bool) -> ForgeError:
    return ForgeError(reason, "away" if may_pass else "refused")


def _target(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    host = normalize_host(bracket_ipv6(parts.hostname or ""))
    if parts.scheme not in _PORTS or host is None or "@" in parts.netloc:
        raise ForgeError("The address of the platform is not understood; connect it anew.")
    return parts.scheme, host, parts.port or _PORTS[parts.scheme]


def _shown(address: str) -> str:
    """As the narrowest range that the setting takes."""
    return str(ipaddress.ip_network(address.partition("%")[0]))
