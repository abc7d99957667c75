"""Messages about platform connections, reworded from the command line for pages. Pure."""

from collections.abc import Mapping

from agentjobs.forges.connection import Connection
from agentjobs.problems import Problem
from agentjobs.web.dashboard.connection_errors import for_tenants

PLATFORMS: Mapping[str, str] = {
    "github": "GitHub",
    "gitlab": "GitLab",
    "gitea": "Gitea or Forgejo",
}
# Command-line phrases and their equivalents on a page.
_PHRASES = (
    ("; choose another name with --name.", "; choose another name."),
    ("both --app-id and --installation-id.", "both an App ID and an installation ID."),
    (
        "to connect an app, use --app-id, --installation-id and --private-key-file.",
        "paste it into the private key field of the GitHub App, with its IDs.",
    ),
    ("The token is empty; pass it on standard input.", "Paste the token."),
    (
        "Enter the address of the platform with --url; it has no default.",
        "Enter the address of the platform, such as https://git.example.com.",
    ),
    (" with `agentjobs repos disconnect`", ""),
    (
        "replace its token with `agentjobs forges rotate-token`.",
        "replace its token under Platforms.",
    ),
)
_FIELD_OF = {
    "invalid_platform": "platform",
    "invalid_url": "url",
    "invalid_name": "name",
    "name_taken": "name",
    "invalid_app": "app_id",
    "forge_unauthorized": "credential",
    "invalid_credential": "credential",
}


def for_page(problem: Problem) -> Problem:
    message = problem.message
    for terminal, page in _PHRASES:
        message = message.replace(terminal, page)
    return Problem(
        problem.code, for_tenants(message), retry_after_seconds=problem.retry_after_seconds
    )


def faults_by_field(problem: Problem | None, *, is_app: bool = False) -> dict[str, str]:
    """The error of each form field; empty if there is none."""
    faults = dict.fromkeys(("platform", "url", "name", "app_id", "token", "private_key"), "")
    field = None if problem is None else _FIELD_OF.get(problem.code)
    if problem is not None and field is not None:
        credential = "private_key" if is_app else "token"
        faults[credential if field == "credential" else field] = problem.message
    return faults


def hook_address(public_url: str, connection: Connection) -> str:
    return f"{public_url}/hooks/{connection.platform}/{connection.id}"


def not_found() -> Problem:
    return Problem("not_found", "There is no such connection. It may have been removed.")
