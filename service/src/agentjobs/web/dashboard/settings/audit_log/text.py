"""Descriptions of audit log actions, actors and details. Pure functions."""

from collections.abc import Mapping
from typing import Any

import msgspec

ACTIONS: Mapping[str, str] = {
    "api_key.created": "created an API key",
    "api_key.edited": "edited an API key",
    "api_key.revoked": "revoked an API key",
    "budget.changed": "changed the budgets",
    "forge.connected": "connected a platform",
    "forge.credential_replaced": "replaced the credential of a platform",
    "forge.hook_secret_rotated": "rotated the webhook secret of a platform",
    "forge.installation_replaced": "replaced the installation of a GitHub App",
    "forge.removed": "removed a platform",
    "forge.signing_changed": "changed how commits to a platform are signed",
    "forge.webhooks_registered": "turned on the webhooks of a platform",
    "forge.webhooks_removed": "turned off the webhooks of a platform",
    "invitation.accepted": "accepted an invitation",
    "invitation.created": "sent an invitation",
    "invitation.revoked": "revoked an invitation",
    "job.cancelled": "cancelled a job",
    "job.created": "created a job",
    "member.added": "added a member",
    "member.removed": "removed a member",
    "member.role_changed": "changed a member's role",
    "member.signed_out": "signed a member out",
    "organization.auto_trigger_set": "set the severity threshold for automatic jobs",
    "organization.created": "created the organization",
    "organization.deleted": "deleted an organization",
    "organization.deletion_started": "started to delete an organization",
    "organization.paused": "paused the organization",
    "organization.resumed": "resumed the organization",
    "organization.setup_network_set": "set the hosts that setup may reach",
    "operator.added": "made an account an operator",
    "operator.removed": "removed an operator",
    "password.changed": "changed a password",
    "password.reset": "reset a password with a link",
    "password.reset_link_created": "created a password reset link",
    "plan.changed": "changed the plan",
    "pull.base_merged": "merged the base branch into a pull request",
    "pull.close_requested": "asked a platform to close a pull request",
    "pull.closed": "closed a pull request",
    "pull.comment_reopened": "reopened a comment on a pull request",
    "pull.comment_resolved": "resolved a comment on a pull request",
    "pull.commented": "commented on a pull request",
    "pull.merge_requested": "asked a platform to merge a pull request",
    "pull.merged": "merged a pull request",
    "pull.ready": "marked a pull request as ready",
    "repo.auto_trigger_set": "set a repository's severity threshold for automatic jobs",
    "repo.connected": "connected a repository",
    "repo.disconnected": "disconnected a repository",
    "repo.purged": "removed the files of a repository",
    "repo.environment_built": "requested a build of a repository's environment",
    "repo.environment_rebuilt": "retired a repository's environment and requested a build",
    "repo.environment_removed": "removed the environment set for a repository",
    "repo.environment_set": "set the environment of a repository",
    "repo.path_lifted": "removed the protection of a path",
    "repo.path_protected": "restored the protection of a path",
    "repo.renamed": "renamed a repository",
    "repo.scheduling_set": "set a repository's worker tags or job limit",
    "repo.trusted_branches_set": "set the branches whose setup is trusted",
    "secret.key_rotated": "rotated the encryption key",
    "secret.removed": "removed a secret",
    "secret.set": "set a secret",
    "service.paused": "paused the service",
    "service.restored": "restored the service from a backup",
    "service.resumed": "resumed the service",
    "sessions.ended": "ended sessions",
    "tracker.added": "added a tracker",
    "tracker.changed": "changed a tracker",
    "tracker.removed": "removed a tracker",
    "tracker.token_replaced": "replaced the token of a tracker",
    "user.created": "created a user",
    "user.linked": "linked a user to the provider",
    "user.renamed": "changed a name",
    "user.signed_in": "signed in",
    "user.signed_out": "signed out",
    "vulnerability.dismissed": "dismissed vulnerabilities",
    "vulnerability.reopened": "reopened vulnerabilities",
    "vulnerability.snoozed": "snoozed vulnerabilities",
    "webhook.added": "added a webhook",
    "webhook.changed": "changed a webhook",
    "webhook.disabled": "disabled a webhook",
    "webhook.enabled": "enabled a webhook",
    "webhook.redelivered": "redelivered deliveries",
    "webhook.removed": "removed a webhook",
    "webhook.secret_promoted": "promoted a webhook's new secret",
    "webhook.secret_rotated": "rotated a webhook's secret",
    "webhook.tested": "tested a webhook",
    "worker.drained": "drained a worker",
    "worker.removed": "removed a worker",
    "worker.resumed": "resumed a worker",
}

# Labels of the filter, by the part of the action before the dot.
GROUPS: Mapping[str, str] = {
    "api_key": "API keys",
    "budget": "Budgets",
    "forge": "Platforms",
    "invitation": "Invitations",
    "job": "Jobs",
    "member": "Members",
    "operator": "Operators",
    "organization": "Organization",
    "password": "Passwords",
    "plan": "Plan",
    "pull": "Pull requests",
    "repo": "Repositories",
    "secret": "Secrets",
    "service": "Service",
    "sessions": "Sessions",
    "tracker": "Trackers",
    "user": "Users and sign-ins",
    "vulnerability": "Vulnerabilities",
    "webhook": "Webhooks",
    "worker": "Workers",
}

_ACTORS: Mapping[str, str] = {
    "user": "user",
    "key": "API key",
    "operator": "operator",
    "service": "service",
}


def describe_action(action: str) -> str:
    """The action itself if it has no description."""
    return ACTIONS.get(action, action)


def describe_actor(kind: str) -> str:
    return _ACTORS.get(kind, kind)


def describe_details(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _format_value(value)) for name, value in details.items()]


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_format_value, value)) or "none"
    return msgspec.json.encode(value).decode()
