"""The host of a URL, judged before anybody looks it up: only a plain address is one.

Readers disagree about odd spellings, and a proxy is such a reader. Names are judged when their
addresses are known, where those are dialled.
"""

import re
import socket

from agentjobs.outbound.addresses import Allowed, why_refused

# To one reader or another such a last label makes the host a number, and never a name.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9_][a-z0-9._-]*", re.IGNORECASE)


def why_host_refused(host: str, allowed: Allowed) -> str | None:
    """None: it may be dialled, or is a name. `host` is without brackets."""
    if ":" in host:
        return why_refused(host, allowed)
    if not _NAME.fullmatch(host):
        return f"{host!r} is neither a name nor an IP address"
    if not _is_number(host):
        return None
    plain = _plain(host)
    if plain != host:
        return f"{host} is no plain IP address" + (f": write {plain}" if plain else "")
    return why_refused(host, allowed)


def _is_number(host: str) -> bool:
    return _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]) is not None


def _plain(host: str) -> str | None:
    try:
        return socket.inet_ntoa(socket.inet_aton(host.rstrip(".")))
    except OSError:
        return None
