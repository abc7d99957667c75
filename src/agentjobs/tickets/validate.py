"""What a person gives to add a tracker, read strictly: address, account, name.

Pure. Whether the host may be reached, and what it says, is found out elsewhere.
"""

import re
from urllib.parse import urlsplit

from agentjobs.connections.validate import validate_url
from agentjobs.problems import Problem
from agentjobs.tickets.rows import Flavour

# What the tokens of Jira Cloud that have scopes are shown to, with the site in the path.
GATEWAY_HOST = "api.atlassian.com"
_CLOUD_HOSTS = ".atlassian.net"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
# Whatever basic authentication can carry before its colon.
_ACCOUNT = re.compile(r"[\x21-\x39\x3b-\x7e]{1,254}")


def is_cloud(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host.endswith(_CLOUD_HOSTS) or host == GATEWAY_HOST


def checked_site(url: str) -> str:
    if not url.strip():
        raise Problem("invalid_url", "Name Jira's address, such as https://example.atlassian.net.")
    checked = validate_url("jira", url)
    if not checked.startswith("https://"):
        raise Problem("invalid_url", "Jira's address must start with https://.")
    parts = urlsplit(checked)
    if (parts.hostname or "").endswith(_CLOUD_HOSTS):
        # The path is that of the page from which it was copied.
        return f"{parts.scheme}://{parts.netloc}"
    return checked


def validate_account(account: str | None, flavour: Flavour | None, url: str) -> str | None:
    flavour = flavour or ("cloud" if is_cloud(url) else "data-center")
    if flavour == "data-center":
        if account:
            raise Problem(
                "invalid_account",
                "A personal access token of Jira Data Center needs no account; leave it out, or "
                "say that this is Jira Cloud.",
            )
        return None
    if not account or "@" not in account or not _ACCOUNT.fullmatch(account):
        raise Problem(
            "invalid_account",
            "An API token of Jira Cloud goes with the e-mail address of its account: name it.",
        )
    return account


def validate_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name == "issues":
        raise Problem(
            "invalid_name",
            f"{name!r} cannot name a tracker: use 1 to 63 lower-case letters, digits, and dots or "
            "hyphens inside, but not the word issues.",
        )
    return name
