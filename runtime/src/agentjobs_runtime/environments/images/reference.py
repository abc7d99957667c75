"""Parses references to images: `registry.example.com/acme/build:12`, `python:3.12`. Pure."""

import ipaddress
import re

import msgspec

from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_runtime.outbound.guard.host_patterns import is_address, normalize_host, split_port
from agentjobs_runtime.safe_text import ellipsize

DOCKER_HUB = "docker.io"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_MAX_CHARACTERS = 500
_MAX_SHOWN = 100


class Reference(msgspec.Struct, frozen=True):
    """Has either a tag or a digest. `name` is host and path."""

    host: str
    path: str
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        return f"{self.host}/{self.path}"

    def __str__(self) -> str:
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"

    def pinned(self, digest: str) -> "Reference":
        return Reference(self.host, self.path, digest=digest)


def parse_reference(text: str) -> Reference:
    """Parse it as Docker does: without a host it is on Docker Hub, without a tag it is `latest`.

    Raises ImageError.
    """
    if len(text) > _MAX_CHARACTERS:
        raise _invalid(text, "it is too long")
    rest, at, digest = text.strip().partition("@")
    if at and not DIGEST.fullmatch(digest):
        raise _invalid(text, "a digest is sha256: and 64 hexadecimal digits")
    host, path = _split_host(rest)
    path, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _invalid(text, "its tag is invalid")
    if not _PATH.fullmatch(path):
        raise _invalid(text, "write it like registry.example.com/acme/build:12, in lower case")
    if host == DOCKER_HUB and "/" not in path:
        path = f"library/{path}"
    return Reference(_check_host(text, host), path, "" if at else tag or "latest", digest)


def _split_host(text: str) -> tuple[str, str]:
    first, slash, rest = text.partition("/")
    is_host = "." in first or ":" in first or first == "localhost"
    return (first, rest) if slash and is_host else (DOCKER_HUB, text)


def _check_host(text: str, host: str) -> str:
    try:
        name, port = split_port(host)
    except ValueError:
        raise _invalid(text, "its port is invalid") from None
    normalized = normalize_host(name)
    if normalized is None or ":" in normalized:
        raise _invalid(text, f"{ellipsize(host, _MAX_SHOWN)!r} is not the name of a host")
    if _is_loopback(normalized):
        raise _invalid(text, f"{normalized} is the sandbox that pulls it: write the host's name")
    return normalized if port is None else f"{normalized}:{port}"


def _is_loopback(host: str) -> bool:
    """Programs never use a proxy for these."""
    if is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def _invalid(text: str, reason: str) -> ImageError:
    return ImageError(f"{ellipsize(text, _MAX_SHOWN)!r} is not a reference to an image: {reason}.")
