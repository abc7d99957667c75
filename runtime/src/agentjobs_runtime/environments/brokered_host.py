"""A private host that the service answers for, with a credential that it adds itself.

Pure: parses what an admin wrote and says which requests may be forwarded.
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import unquote

import msgspec

from agentjobs_runtime.outbound.guard.host_patterns import bracket_ipv6, parse_pattern

Kind = Literal["", "pip", "npm", "cargo", "go"]
KINDS: tuple[Kind, ...] = ("pip", "npm", "cargo", "go")
DEFAULT_METHODS = ("GET", "HEAD")
MAX_LENGTH = 1_000
"""The length of a header without its secret, and of a path prefix."""
METHODS = (*DEFAULT_METHODS, "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
SECRET = "{secret}"  # noqa: S105 - a placeholder

_HTTPS_PORT = 443
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?")
# They describe the connection or the message, which the service writes itself.
_RESERVED_HEADERS = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"),
        *("host", "content-length", "content-encoding", "content-type", "accept-encoding"),
    }
)
_TARGET = re.compile(r"/[\x21-\x22\x24-\x7e]*")
_PREFIX = re.compile(r"/[A-Za-z0-9._~@+!$&'()*,:=/-]*")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\\]")
_MAX_DECODINGS = 3


class CredentialHeader(NamedTuple):
    name: str
    value: str


class BrokeredHost(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is HOST or HOST:PORT; `kind` is the package manager that is configured to use it."""

    name: str
    host: str
    header: str
    secret: str
    path_prefix: str = "/"
    methods: tuple[str, ...] = DEFAULT_METHODS
    kind: Kind = ""

    def __repr__(self) -> str:
        """Omits the secret, because a repr may be logged."""
        return f"BrokeredHost(name={self.name!r}, host={self.host!r})"

    @property
    def origin(self) -> str:
        return f"https://{self.host}"

    @property
    def credential(self) -> CredentialHeader | None:
        """None if the secret cannot be part of a header."""
        name, value = parse_header(self.header)
        value = value.replace(SECRET, self.secret)
        return CredentialHeader(name, value) if _HEADER_VALUE.fullmatch(value) else None

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for the sandbox, which replaces `{address}`."""
        url = "http://{address}" + self.path_prefix.rstrip("/")
        name = self.name.upper()
        return {f"AGENTJOBS_{name}_URL": url, **_tool_variables(self.kind, name, url)}

    def refusal(self, method: str, target: str) -> str | None:
        """Why a request is not forwarded; None if it may be."""
        if method not in self.methods:
            allowed = ", ".join(self.methods)
            return f"this port forwards only {allowed} to {self.host}, not {method[:20]}"
        if not _TARGET.fullmatch(target):
            return f"this port answers for {self.host}: request a path such as /a/b, not a URL"
        return _path_refusal(target.partition("?")[0], self.path_prefix)


def parse_header(text: str) -> CredentialHeader:
    """Raises ValueError with a message for its author."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the header must have at most {MAX_LENGTH} characters")
    name, colon, value = text.partition(":")
    name, value = name.strip(" "), value.strip(" ")
    if not colon or not _HEADER_NAME.fullmatch(name):
        raise ValueError(
            f"{text!r} is not a header: write it like 'Authorization: Bearer {SECRET}'"
        )
    if name.lower() in _RESERVED_HEADERS:
        raise ValueError(f"the header {name} is set by the service: use another one")
    if value.count(SECRET) != 1:
        raise ValueError(f"the header must contain {SECRET} exactly once, where the value belongs")
    if not _HEADER_VALUE.fullmatch(value):
        raise ValueError("the header must be one line of ASCII characters")
    return CredentialHeader(name, value)


def parse_host(text: str) -> str:
    """HOST or HOST:PORT in its normal form; raises ValueError with a message for its author."""
    pattern = parse_pattern(text)
    if pattern.subdomains:
        raise ValueError(f"{text!r}: a credential is sent to one host; write its full name")
    # A pattern without a port permits several.
    port = pattern.ports[0] if len(pattern.ports) == 1 else _HTTPS_PORT
    suffix = "" if port == _HTTPS_PORT else f":{port}"
    return bracket_ipv6(pattern.host) + suffix


def parse_path_prefix(text: str) -> str:
    """Raises ValueError with a message for its author."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the path prefix must have at most {MAX_LENGTH} characters")
    if not _PREFIX.fullmatch(text) or _path_refusal(text, "/"):
        raise ValueError(
            f"{text!r} is not a path prefix: write a path such as /api/packages, without query,"
            " escapes, '//' or '..'"
        )
    return text


def parse_methods(text: str) -> tuple[str, ...]:
    """Raises ValueError with a message for its author."""
    methods = tuple(dict.fromkeys(part.strip().upper() for part in text.split(",")))
    for method in methods:
        if method not in METHODS:
            raise ValueError(f"{method!r} cannot be allowed: choose from {', '.join(METHODS)}")
    return methods


def _path_refusal(path: str, prefix: str) -> str | None:
    """Servers differ in how often they decode a path, so each decoded form is checked."""
    for _ in range(_MAX_DECODINGS):
        if reason := _form_refusal(path, prefix):
            return reason
        try:
            decoded = unquote(path, errors="strict")
        except UnicodeDecodeError:
            return "the path is not UTF-8"
        if decoded == path:
            return None
        path = decoded
    return "the path is encoded too many times"


def _form_refusal(path: str, prefix: str) -> str | None:
    if _UNPRINTABLE.search(path):
        return "the path contains a backslash or a control character"
    segments = path.split("/")[1:]
    if "" in segments[:-1]:
        return "the path contains '//'"
    # Java servers ignore what follows a semicolon, others spaces at the end.
    if any(segment and not segment.partition(";")[0].strip(" .") for segment in segments):
        return "the path contains '.' or '..'"
    if not f"{path}/".startswith(f"{prefix.rstrip('/')}/"):
        return f"only paths below {prefix} are forwarded"
    return None


def _tool_variables(kind: Kind, name: str, url: str) -> Mapping[str, str]:
    if kind == "pip":
        # The files of most indexes are beside this path, not below it.
        index = f"{url}/" if url.endswith("simple") else f"{url}/simple/"
        return {"PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index}
    if kind == "npm":
        # Registries name their tarballs by full URLs, and lock files repeat them.
        return {"npm_config_registry": f"{url}/", "npm_config_replace_registry_host": "always"}
    if kind == "cargo":
        registry = f"CARGO_REGISTRIES_{name}"
        # Cargo wants a token of its own where the registry says that it needs one.
        return {
            f"{registry}_INDEX": f"sparse+{url}/",
            f"{registry}_TOKEN": "brokered",
            f"{registry}_CREDENTIAL_PROVIDER": "cargo:token",
        }
    if kind == "go":
        # Names of private modules must not be sent to the public checksum database.
        return {"GOPROXY": url, "GOSUMDB": "off"}
    return {}
