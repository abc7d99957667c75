"""The address of a remote repository, and the credential for it.

The credential is in the environment of one git process: never in an argument, never on disk.
"""

import base64
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

NETWORK_PROTOCOLS = "http:https"
# Nothing listens on port 0.
_UNREACHABLE_PROXY = "http://127.0.0.1:0"

_ACCESS_DENIED = re.compile(
    r"(returned error:|HTTP) (401|403)|Authentication failed|could not read Username"
)
# As GnuTLS and OpenSSL say it.
_UNTRUSTED_CERTIFICATE = re.compile(
    r"certificate verification|SSL certificate problem|SSL: no alternative certificate"
)
_HOST_UNREACHABLE = re.compile(
    r"(Could not|Couldn't) (connect|resolve)|Failed to connect|Connection (refused|timed out)"
    rf"|{_UNTRUSTED_CERTIFICATE.pattern}"
)
_TEMPORARY_FAILURE = re.compile(
    r"(Could not|Couldn't) (connect|resolve)|Failed to connect|Connection (refused|reset|timed out)"
    r"|(returned error:|HTTP|HTTP code|response) (429|5\d\d)|Empty reply|timed out|early EOF"
    r"|hung up (unexpectedly|upon initial contact)|unexpected (disconnect|eof while reading)"
    r"|transfer closed|not closed cleanly|Broken pipe|CONNECT aborted"
    # A connection that was cut during the TLS handshake, as GnuTLS and OpenSSL say it.
    r"|non-properly terminated|Error in the (pull|push) function|SSL_ERROR_SYSCALL"
)
# Up to the last @ before the path: a password may contain one.
_CREDENTIALS = re.compile(r"://[^/\s'\"]*@")
# These are the rules of git check-ref-format.
INVALID_BRANCH_NAME = r"^$|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[/-]|[/.]$|(^|/)\.|\.lock(/|$)|^@$"
_find_invalid = re.compile(INVALID_BRANCH_NAME).search


@dataclass(frozen=True, slots=True)
class Remote:
    """`authorization` is the whole value of the header, such as "Basic …".

    `proxy` is an address with user and password; `certificates` replaces the system's file.
    `pinned` is `host:port:address,address`, so that git does not resolve the host again.
    `is_fresh`: the credential is so new that the host may not accept it yet.
    `is_of_operator`: whose certificate this machine does not trust only until that is repaired.
    """

    url: str
    authorization: str | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    certificates: Path | None = None
    pinned: str | None = None
    is_fresh: bool = False
    is_of_operator: bool = False

    def is_temporary_failure(self, stderr: str) -> bool:
        """Whether a retry may succeed after git wrote this to stderr."""
        return (
            is_temporary_failure(stderr)
            or (self.is_fresh and is_access_denied(stderr))
            or (self.is_of_operator and _UNTRUSTED_CERTIFICATE.search(stderr) is not None)
        )

    @property
    def configuration(self) -> dict[str, str]:
        configuration = {}
        if self.authorization is not None:
            configuration["http.extraHeader"] = f"Authorization: {self.authorization}"
        if self.proxy is not None:
            configuration["http.proxy"] = self.proxy
            # Sent at once, without waiting for the proxy to request it.
            configuration["http.proxyAuthMethod"] = "basic"
        elif self.url.startswith("http"):
            # A server may name packs on other hosts: git must not reach these, whatever they are.
            configuration["http.proxy"] = _UNREACHABLE_PROXY
            configuration[f"http.{self.url}.proxy"] = ""
        if self.pinned is not None:
            configuration["http.curloptResolve"] = self.pinned
        return configuration

    @property
    def environment(self) -> dict[str, str]:
        """A variable, because one inherited from the service would override configuration."""
        return {} if self.certificates is None else {"GIT_SSL_CAINFO": str(self.certificates)}


def parse_remote(address: str) -> Remote:
    """Parse an address as users enter it; user and password become a header."""
    match = _CREDENTIALS.search(address)
    if match is None:
        return Remote(address)
    user, _, password = match[0][len("://") : -1].partition(":")
    return Remote(strip_credentials(address), basic_authorization(unquote(user), unquote(password)))


def basic_authorization(user: str, password: str) -> str:
    """The value of an `Authorization` header for HTTP basic authentication."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def strip_credentials(text: str) -> str:
    """Remove user and password from addresses, so that the text can be stored and shown."""
    return _CREDENTIALS.sub("://", text)


def is_access_denied(stderr: str) -> bool:
    """Whether git's stderr says that the remote denied access."""
    return _ACCESS_DENIED.search(stderr) is not None


def is_temporary_failure(stderr: str) -> bool:
    """Whether git's stderr says that the remote did not respond, or only with an error."""
    return _TEMPORARY_FAILURE.search(stderr) is not None


def is_host_unreachable(stderr: str) -> bool:
    """Whether git's stderr says that no connection was made, so that no repository is served."""
    return _HOST_UNREACHABLE.search(stderr) is not None


def is_branch_name(name: str) -> bool:
    """Whether git accepts refs/heads/<name>."""
    return len(name) <= 1_000 and not _find_invalid(name) and _is_encodable(name)


def _is_encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
