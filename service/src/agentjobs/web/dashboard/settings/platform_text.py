"""Names, addresses and errors of platform connections, as the pages show them. Pure."""

from collections.abc import Mapping

from agentjobs_runtime.problems import Problem

PLATFORMS: Mapping[str, str] = {
    "github": "GitHub",
    "gitlab": "GitLab",
    "gitea": "Gitea or Forgejo",
}
# By the kind of connection: the platform verifies SSH keys of accounts, and Apps have none.
SIGNING_OPTIONS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "token": (("none", "Not signed"), ("ssh", "With an SSH key")),
    "app": (("none", "Not signed"), ("platform", "By GitHub")),
}
_FIELD_OF = {
    "invalid_platform": "platform",
    "invalid_url": "url",
    "invalid_name": "name",
    "name_taken": "name",
    "invalid_app": "app_id",
    "forge_unauthorized": "credential",
    "invalid_credential": "credential",
}


def errors_by_field(problem: Problem | None, *, is_app: bool = False) -> dict[str, str]:
    """The error of each form field; empty if there is none."""
    errors = dict.fromkeys(("platform", "url", "name", "app_id", "token", "private_key"), "")
    field = None if problem is None else _FIELD_OF.get(problem.code)
    if problem is not None and field is not None:
        credential = "private_key" if is_app else "token"
        errors[credential if field == "credential" else field] = problem.message
    return errors


def not_found() -> Problem:
    return Problem("not_found", "There is no such connection. It may have been removed.")
