"""Validates what a person enters for a tracker: address, account, name.

Pure functions. Whether the host is allowed and accepts the token is checked elsewhere.
"""

import re
from urllib.parse import urlsplit

from agentjobs.connections import validate as connections
from agentjobs.tickets.rows import Flavour
from agentjobs_runtime.problems import Problem

# The host for Jira Cloud tokens with scopes, with the site in the path.
GATEWAY_HOST = "api.atlassian.com"
_CLOUD_HOSTS = ".atlassian.net"
# Any user name that basic authentication supports.
_ACCOUNT = re.compile(r"[\x21-\x39\x3b-\x7e]{1,254}")


def is_cloud(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host.endswith(_CLOUD_HOSTS) or host == GATEWAY_HOST


def validate_site(url: str) -> str:
    if not url.strip():
        raise Problem("invalid_url", "Enter Jira's address, such as https://example.atlassian.net.")
    site = connections.validate_url("jira", url)
    if not site.startswith("https://"):
        raise Problem("invalid_url", "Jira's address must start with https://.")
    parts = urlsplit(site)
    if (parts.hostname or "").endswith(_CLOUD_HOSTS):
        # The path is that of the page from which the address was copied.
        return f"{parts.scheme}://{parts.netloc}"
    return site


def validate_account(account: str | None, flavour: Flavour | None, url: str) -> str | None:
    flavour = flavour or ("cloud" if is_cloud(url) else "data-center")
    if flavour == "data-center":
        if account:
            raise Problem(
                "invalid_account",
                "A personal access token of Jira Data Center needs no account; omit it, or specify "
                "that this is Jira Cloud.",
            )
        return None
    if not account or "@" not in account or not _ACCOUNT.fullmatch(account):
        raise Problem(
            "invalid_account",
            "An API token of Jira Cloud needs the email address of its account.",
        )
    return account


def validate_name(name: str) -> str:
    if name == "issues":
        raise Problem("invalid_name", "The name issues is reserved; choose another name.")
    return connections.validate_name(name)
