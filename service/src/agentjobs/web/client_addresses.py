"""The address of a client. X-Forwarded-For counts only if it comes from a trusted proxy."""

import ipaddress
from collections.abc import Sequence

from starlette.types import Scope

from agentjobs.web.api.headers import all_headers
from agentjobs_runtime.settings import SettingsError

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ClientAddresses:
    def __init__(self, trusted_proxies: Sequence[str]) -> None:
        self._trusted = [_network(text) for text in trusted_proxies if text.strip()]

    def of(self, scope: Scope) -> str:
        """The nearest address that is not a trusted proxy; empty on a Unix socket."""
        client = scope.get("client")
        address: str = client[0] if client else ""
        if not self._trusted:
            return address
        forwarded = b",".join(all_headers(scope, b"x-forwarded-for")).decode("latin-1")
        for hop in reversed(forwarded.split(",")):
            if not self.is_trusted(address) or _parse(hop) is None:
                break
            address = hop.strip()
        return address

    def is_trusted(self, address: str) -> bool:
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in self._trusted)


def _network(text: str) -> _Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise SettingsError(
            f"AGENTJOBS_TRUSTED_PROXIES takes addresses and networks (10.0.0.0/8), not {text!r}"
        ) from None


def _parse(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip())
    except ValueError:
        return None
