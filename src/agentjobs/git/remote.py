"""Where a repository is reached and with which right.

The right travels in the environment of one git process: never in an argument, never on disk.
"""

import base64
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

NETWORK_PROTOCOLS = "http:https"

_NOT_ALLOWED = re.compile(
    r"(returned error:|HTTP) (401|403)|Authentication failed|could not read Username"
)
_NO_ANSWER = re.compile(
    r"(Could not|Couldn't) (connect|resolve)|Failed to connect|Connection (refused|reset|timed out)"
    r"|(returned error:|HTTP) (429|5\d\d)|Empty reply|timed out|early EOF|hung up unexpectedly"
)
# Up to the last @ before the path: a password may contain one.
_CREDENTIALS = re.compile(r"://[^/\s'\"]*@")
# The rules of git check-ref-format.
NOT_A_BRANCH_NAME = r"^$|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[/-]|[/.]$|(^|/)\.|\.lock(/|$)|^@$"
_is_no_branch_name = re.compile(NOT_A_BRANCH_NAME).search


@dataclass(frozen=True, slots=True)
class Remote:
    """`authorization` is the whole value of the header, such as "Basic …".

    `proxy` is an address with a name and a password; `certificates` a file instead of the system's.
    `pinned` says where the host lies, as `host:port:address,address`: nobody looks it up again.
    """

    url: str
    authorization: str | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    certificates: Path | None = None
    pinned: str | None = None

    @property
    def configuration(self) -> dict[str, str]:
        found = {}
        if self.authorization is not None:
            found["http.extraHeader"] = f"Authorization: {self.authorization}"
        if self.proxy is not None:
            found["http.proxy"] = self.proxy
            # Shown at once: nothing is asked of a proxy that is known to want it.
            found["http.proxyAuthMethod"] = "basic"
        if self.pinned is not None:
            found["http.curloptResolve"] = self.pinned
        return found

    @property
    def environment(self) -> dict[str, str]:
        """A variable, because that one of the service's own would outdo a configuration."""
        return {} if self.certificates is None else {"GIT_SSL_CAINFO": str(self.certificates)}


def remote_at(address: str) -> Remote:
    """An address as a person gives it; a name and password in it become a header."""
    found = _CREDENTIALS.search(address)
    if found is None:
        return Remote(address)
    user, _, password = found[0][len("://") : -1].partition(":")
    return Remote(without_credentials(address), basic(unquote(user), unquote(password)))


def basic(user: str, password: str) -> str:
    """As the header of HTTP's simplest authentication has it."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def without_credentials(text: str) -> str:
    """Fit to be stored and shown: what stands before a host's @ is nobody's business."""
    return _CREDENTIALS.sub("://", text)


def refuses_access(stderr: str) -> bool:
    """Whether what git said means that the other side is there and does not let us in."""
    return _NOT_ALLOWED.search(stderr) is not None


def is_away(stderr: str) -> bool:
    """Whether what git said means that nobody answered, or not properly, this time."""
    return _NO_ANSWER.search(stderr) is not None


def is_branch_name(name: str) -> bool:
    """Whether git accepts refs/heads/<name>."""
    return len(name) <= 1_000 and not _is_no_branch_name(name) and _is_encodable(name)


def _is_encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
