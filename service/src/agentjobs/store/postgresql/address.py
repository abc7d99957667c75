"""Parses PostgreSQL URLs: which part may be shown, the hosts, and whether they are local."""

import ipaddress
import os
import re
from urllib.parse import SplitResult, parse_qs, parse_qsl, unquote, unquote_plus, urlencode

from agentjobs.store.database import StoreError

UNPARSABLE = "the URL cannot be parsed; percent-encode the password"
_UNKNOWN = "its address"
_URL = re.compile(r"([^:/?#]+)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


def display_address(url: str) -> str:
    """Host and database without user and password, even if those are not encoded correctly."""
    before_options, _, options = url.partition("://")[2].partition("?")
    _, at, address = before_options.rpartition("@")
    # An @ in the options may belong to a password that contains a question mark.
    if not at or "@" in options or address.startswith("/"):
        return _UNKNOWN
    return address or _UNKNOWN


def _split(url: str) -> SplitResult:
    """Like `urlsplit`, which refuses an IPv6 address after another host. Raises ValueError."""
    match = _URL.fullmatch(url)
    if match is None or match[2].count("[") != match[2].count("]"):
        raise ValueError(UNPARSABLE)
    return SplitResult(*match.groups(""))


def is_parsable(url: str) -> bool:
    """False if an unencoded password makes the URL ambiguous."""
    try:
        parts = _split(url)
        if parts.query:
            parse_qs(parts.query, strict_parsing=True)
    except ValueError:
        return False
    return parts.netloc.count("@") <= 1 and "@" not in parts.path + parts.fragment


def split_password(url: str) -> tuple[str, str | None]:
    """The URL without its password, for command lines that all users can see, and the password."""
    if not is_parsable(url):
        raise StoreError(UNPARSABLE)
    parts = _split(url)
    user, at, address = parts.netloc.rpartition("@")
    name, _, encoded = user.partition(":")
    password = unquote(encoded) or None
    other_options = []
    for option in parts.query.split("&"):
        key, _, value = option.partition("=")
        if unquote_plus(key) == "sslpassword":
            raise StoreError(
                "sslpassword in the database URL cannot be passed to pg_dump; "
                "use a key file without a password for backups"
            )
        if unquote_plus(key) != "password":
            other_options.append(option)
        elif password is None:
            password = unquote_plus(value)
    # Not urlunsplit, which drops the slashes before an empty host.
    options = "?" + "&".join(other_options) if any(other_options) else ""
    return f"{parts.scheme}://{name}{at}{address}{parts.path}{options}", password


def split_hosts(url: str) -> list[str]:
    """One URL for each host of a URL that may name several, in their order."""
    parts = _split(url)
    user, at, hosts = parts.netloc.rpartition("@")
    options = dict(parse_qsl(parts.query))
    if hosts:
        query = f"?{parts.query}" if parts.query else ""
        return [
            f"{parts.scheme}://{user}{at}{host}{parts.path}{query}" for host in hosts.split(",")
        ]
    if "," not in options.get("host", ""):
        return [url]
    names = options.pop("host").split(",")
    ports = options.pop("port", "").split(",")
    urls = []
    for name, port in zip(names, ports if len(ports) > 1 else ports * len(names), strict=True):
        own = {"host": name, **({"port": port} if port else {})}
        urls.append(f"{parts.scheme}://{user}{at}{parts.path}?{urlencode({**options, **own})}")
    return urls


def has_option(url: str, name: str) -> bool:
    return name in parse_qs(_split(url).query)


def is_local_address(url: str) -> bool:
    """Whether every host in the URL is loopback or a Unix socket."""
    if not is_parsable(url):
        return False
    parts = _split(url)
    options = parse_qs(parts.query)
    if "service" in options or os.environ.get("PGSERVICE"):
        # The host is in a service file that we do not read.
        return False
    hosts = (
        unquote(parts.netloc.rpartition("@")[2])
        or options.get("host", [""])[-1]
        or os.environ.get("PGHOST", "")
    )
    return all(_is_local(host) for host in hosts.split(","))


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
