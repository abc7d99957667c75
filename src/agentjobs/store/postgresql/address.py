"""Reads a PostgreSQL address: what of it may be shown, and where it leads. Opens nothing."""

import ipaddress
import os
from urllib.parse import parse_qs, unquote, unquote_plus, urlsplit

from agentjobs.store.database import StoreError

UNREADABLE = "the address cannot be read; percent-encode the password"
_UNNAMED = "its address"


def place(url: str) -> str:
    """Where the database is, without the user and the password, however badly they are written."""
    before_options, _, options = url.partition("://")[2].partition("?")
    _, at, address = before_options.rpartition("@")
    # An @ among the options may end a password with a question mark in it, or be inside another.
    if not at or "@" in options or address.startswith("/"):
        return _UNNAMED
    return address or _UNNAMED


def is_readable(url: str) -> bool:
    """False when a password that is not encoded has taken the address apart at the wrong place."""
    try:
        parts = urlsplit(url)
        if parts.query:
            parse_qs(parts.query, strict_parsing=True)
    except ValueError:
        return False
    return parts.netloc.count("@") <= 1 and "@" not in parts.path + parts.fragment


def without_password(url: str) -> tuple[str, str | None]:
    """The address for a command line, which every user of the machine can read; the password."""
    if not is_readable(url):
        raise StoreError(UNREADABLE)
    parts = urlsplit(url)
    user, at, address = parts.netloc.rpartition("@")
    name, _, given = user.partition(":")
    password = unquote(given) or None
    kept = []
    for option in parts.query.split("&"):
        key, _, value = option.partition("=")
        if unquote_plus(key) == "sslpassword":
            raise StoreError(
                "sslpassword in the database address cannot be handed to pg_dump; "
                "use a key file without a password for backups"
            )
        if unquote_plus(key) != "password":
            kept.append(option)
        elif password is None:
            password = unquote_plus(value)
    # By hand: urlunsplit drops the slashes before an empty host.
    options = "?" + "&".join(kept) if any(kept) else ""
    return f"{parts.scheme}://{name}{at}{address}{parts.path}{options}", password


def is_on_this_machine(url: str) -> bool:
    """Whether every host that it names is loopback or a Unix socket."""
    if not is_readable(url):
        return False
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    if "service" in options or os.environ.get("PGSERVICE"):
        # Some file knows; we do not.
        return False
    named = (
        unquote(parts.netloc.rpartition("@")[2])
        or options.get("host", [""])[-1]
        or os.environ.get("PGHOST", "")
    )
    return all(_is_local(host) for host in named.split(","))


def _is_local(host_and_port: str) -> bool:
    if host_and_port.startswith("["):
        host = host_and_port[1:].partition("]")[0]
    elif host_and_port.count(":") == 1:
        host = host_and_port.partition(":")[0]
    else:
        host = host_and_port
    if not host or host.startswith("/") or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
