"""The address a tenant names to have a repository fetched: read strictly, before anybody dials it.

Pure. Whether its host may be reached is judged where it is dialled.
"""

import re
from urllib.parse import urlsplit

import msgspec

from agentjobs.git.remote import basic
from agentjobs.outbound.guard.host_patterns import in_url, plain_host
from agentjobs.problems import Problem

MAX_CHARACTERS = 2_000
HTTPS_PORT = 443
# Servers that look at a token alone still want a name before it.
_NAME_OF_NOBODY = "git"
_VISIBLE = re.compile(r"[\x21-\x7e]+")


class ImportSource(msgspec.Struct, frozen=True):
    """`url` is in one plain spelling, without a credential; `host` as `plain_host` gives it."""

    url: str
    host: str
    port: int


def checked_source(address: str) -> ImportSource:
    """Raises Problem: the address must be https, of a plain host, with a path and nothing else."""
    address = address.strip()
    if len(address) > MAX_CHARACTERS or not _VISIBLE.fullmatch(address):
        raise _refused("Name the https address of a repository, without spaces.")
    if not address.lower().startswith("https://"):
        raise _refused("The address must start with https://.")
    try:
        parts = urlsplit(address)
        port = parts.port or HTTPS_PORT
    except ValueError:
        raise _refused("The address is not understood; copy it from `git clone`.") from None
    if "@" in parts.netloc:
        raise _refused(
            "The address must hold neither a name nor a password: they go into their own fields."
        )
    if "?" in address or "#" in address or "\\" in address:
        raise _refused("The address must hold no ?, # or backslash; copy it from `git clone`.")
    host = plain_host(_without_port(parts.netloc))
    # A percent sign would name an interface of this machine.
    if host is None or "%" in host:
        raise _refused("The host of the address is not understood; copy it from `git clone`.")
    if not parts.path.strip("/"):
        raise _refused("The address names a host, but no repository on it.")
    shown_port = "" if port == HTTPS_PORT else f":{port}"
    return ImportSource(f"https://{in_url(host)}{shown_port}{parts.path}", host, port)


def authorization(user: str, token: str) -> str | None:
    """The header's value; None when neither is given. Raises Problem."""
    if not user and not token:
        return None
    if ":" in user or not (user + token).isprintable():
        raise Problem(
            "invalid_credential", "A name has no colon, and neither it nor a token a line break."
        )
    if max(len(user), len(token)) > MAX_CHARACTERS:
        raise Problem("invalid_credential", f"Name and token have at most {MAX_CHARACTERS} marks.")
    return basic(user or _NAME_OF_NOBODY, token)


def _without_port(netloc: str) -> str:
    host, colon, port = netloc.rpartition(":")
    return host if colon and (port.isdecimal() or not port) else netloc


def _refused(reason: str) -> Problem:
    return Problem("invalid_source", reason)
