"""Checks the address of a service as a user types it."""

import ipaddress
from urllib.parse import SplitResult, urlsplit

from agentjobs_runtime.problems import Problem


def check_address(text: str) -> SplitResult:
    """The default scheme is https, or http on this machine."""
    text = text.strip()
    try:
        address = urlsplit(text if "://" in text else f"//{text}")
        # Raises ValueError for a port out of range.
        is_valid = bool(address.hostname) and address.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not text.isascii() or not text.isprintable() or " " in text:
        # It may contain a password.
        shown = "This" if "@" in text else repr(text)
        raise Problem("invalid_address", f"{shown} is not an address; use the form https://HOST.")
    if address.username is not None or address.query or address.fragment:
        raise Problem(
            "invalid_address",
            "The address must not contain a user name, a password, `?` or `#`.",
        )
    scheme = address.scheme or ("http" if _is_loopback(address) else "https")
    if scheme not in {"http", "https"}:
        raise Problem("invalid_address", f"{scheme}:// is not supported; use https://HOST.")
    path = address.path.rstrip("/")
    return address._replace(scheme=scheme, netloc=address.netloc.lower(), path=path)


def is_unencrypted(address: SplitResult) -> bool:
    """Whether others on the network could read what is sent."""
    return address.scheme == "http" and not _is_loopback(address)


def _is_loopback(address: SplitResult) -> bool:
    host = address.hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
