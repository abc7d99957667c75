"""Parses the URL and credential of a tenant's import, strictly, before any connection is made.

Pure. The outbound guard decides whether the host may be dialled.
"""

import re
from urllib.parse import urlsplit

import msgspec

from agentjobs_runtime.git.remote import basic_authorization
from agentjobs_runtime.outbound.guard.host_patterns import bracket_ipv6, normalize_host
from agentjobs_runtime.problems import Problem

MAX_CHARACTERS = 2_000
HTTPS_PORT = 443
# Servers that check only the token still require a user name.
_DEFAULT_USER = "git"
_VISIBLE = re.compile(r"[\x21-\x7e]+")


class ImportSource(msgspec.Struct, frozen=True):
    """`url` is normalized and has no credential; `host` is in the form of `normalize_host`."""

    url: str
    host: str
    port: int


def parse_source(address: str) -> ImportSource:
    """Raises Problem unless the URL is https with a plain host and a path, and nothing else."""
    address = address.strip()
    if len(address) > MAX_CHARACTERS or not _VISIBLE.fullmatch(address):
        raise _invalid("Enter the https URL of a repository, without spaces.")
    if not address.lower().startswith("https://"):
        raise _invalid("The URL must start with https://.")
    try:
        parts = urlsplit(address)
        port = parts.port or HTTPS_PORT
    except ValueError:
        raise _invalid("The URL is invalid; copy it from `git clone`.") from None
    if "@" in parts.netloc:
        raise _invalid(
            "The URL must not contain a user name or password; use the separate fields for them."
        )
    if "?" in address or "#" in address or "\\" in address:
        raise _invalid("The URL must not contain ?, # or a backslash; copy it from `git clone`.")
    host = normalize_host(_without_port(parts.netloc))
    # A percent sign would select a network interface of this machine.
    if host is None or "%" in host:
        raise _invalid("The URL's host is invalid; copy it from `git clone`.")
    if not parts.path.strip("/"):
        raise _invalid("The URL has a host but no repository path.")
    port_suffix = "" if port == HTTPS_PORT else f":{port}"
    return ImportSource(f"https://{bracket_ipv6(host)}{port_suffix}{parts.path}", host, port)


def authorization(user: str, token: str) -> str | None:
    """The Authorization header, or None if both are empty. Raises Problem."""
    if not user and not token:
        return None
    if ":" in user or not (user + token).isprintable():
        raise Problem(
            "invalid_credential",
            "A user name must not contain a colon, and neither field may contain line breaks.",
        )
    if max(len(user), len(token)) > MAX_CHARACTERS:
        raise Problem(
            "invalid_credential",
            f"User name and token must have at most {MAX_CHARACTERS} characters.",
        )
    return basic_authorization(user or _DEFAULT_USER, token)


def _without_port(netloc: str) -> str:
    host, colon, port = netloc.rpartition(":")
    return host if colon and (port.isdecimal() or not port) else netloc


def _invalid(reason: str) -> Problem:
    return Problem("invalid_source", reason)
