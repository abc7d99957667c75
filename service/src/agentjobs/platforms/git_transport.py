"""How git connects to a platform: through the outbound guard, over HTTPS; over plain HTTP only to
addresses that the operator allows. Knows no platform."""

import contextlib
import ipaddress
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

from agentjobs.platforms.protocol import PlatformError
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.outbound.egress.tunnel import open_tunnel
from agentjobs_runtime.outbound.guard.addresses import AllowList, BlockedAddress, filter_permitted
from agentjobs_runtime.outbound.guard.host_patterns import bracket_ipv6, normalize_host
from agentjobs_runtime.outbound.guard.resolver import Lookup, new_job_resolver, system_lookup

MAX_BYTES = 10 * 2**30
_PORTS = {"https": 443, "http": 80}


class GitTransport:
    """`certificates` is a file with the CAs that git trusts; None means the system's."""

    def __init__(
        self,
        allowed: AllowList,
        certificates: Path | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        lookup: Lookup = system_lookup,
    ) -> None:
        self._allowed = allowed
        self._certificates = certificates
        self._max_bytes = max_bytes
        self._lookup = lookup

    @contextlib.asynccontextmanager
    async def connect(
        self, url: str, authorization: str, *, is_fresh: bool = False
    ) -> AsyncIterator[Remote]:
        """`authorization` is the value of the header; `is_fresh`: it may not be accepted yet.

        Raises PlatformError, also instead of git's error when the guard refuses the connection.
        """
        scheme, host, port = _target(url)
        if scheme == "http":
            pinned = await self._pin_addresses(host, port)
            yield Remote(url, authorization, pinned=pinned, is_fresh=is_fresh)
            return
        async with open_tunnel(
            host, port, self._allowed, max_bytes=self._max_bytes, lookup=self._lookup
        ) as (tunnel, proxy):
            try:
                yield Remote(url, authorization, proxy, self._certificates, is_fresh=is_fresh)
            except Exception:
                if tunnel.refusal is None:
                    raise
                raise PlatformError(
                    tunnel.refusal, "away" if tunnel.is_temporary else "unusable"
                ) from None

    async def refuse_plain_http(self, url: str) -> None:
        """Raises PlatformError for plain HTTP to an address that the operator does not allow."""
        scheme, host, port = _target(url)
        if scheme == "http":
            await self._pin_addresses(host, port)

    async def _pin_addresses(self, host: str, port: int) -> str | None:
        """The addresses to which git must connect; None if the host is an IP address."""
        try:
            addresses = await new_job_resolver(self._lookup).resolve(host)
        except (OSError, UnicodeError) as error:
            reason = f"The host name {host} cannot be resolved ({error})."
            raise PlatformError(reason, "away") from None
        if not addresses:
            raise PlatformError(f"The host name {host} has no address.", "away")
        for address in addresses:
            self._refuse_public_address(host, address)
        if addresses == [host]:
            return None
        return f"{host}:{port}:{','.join(bracket_ipv6(address) for address in addresses)}"

    def _refuse_public_address(self, host: str, address: str) -> None:
        try:
            filter_permitted(host, [address], self._allowed.without_public())
        except BlockedAddress:
            setting = self._allowed.setting
            raise PlatformError(
                f"http://{bracket_ipv6(host)} would send the credential unencrypted: use https, or "
                f"ask the operator to add {_network(address)} to {setting}.",
                "unusable",
            ) from None


def _target(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    host = normalize_host(bracket_ipv6(parts.hostname or ""))
    if parts.scheme not in _PORTS or host is None or "@" in parts.netloc:
        raise PlatformError("The address of the platform is invalid; connect it again.", "unusable")
    return parts.scheme, host, parts.port or _PORTS[parts.scheme]


def _network(address: str) -> str:
    """The smallest network that the setting accepts."""
    return str(ipaddress.ip_network(address.partition("%")[0]))
