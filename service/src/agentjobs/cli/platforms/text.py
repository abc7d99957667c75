"""Formats connections as table rows and JSON documents, without credentials."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agentjobs.cli.output import to_document
from agentjobs_runtime.clock import SECOND_MS, iso_utc_or_none

if TYPE_CHECKING:
    from agentjobs.platforms.connection import Connection
    from agentjobs.platforms.protocol import Account
    from agentjobs.repos.hook_rows import HookRow
    from agentjobs_runtime.settings import Settings

TABLE = ("name", "platform", "url", "account", "state", "checked", "last webhook")
_FIELDS = (
    *("id", "name", "platform", "kind", "url", "app_id", "installation_id", "account"),
    *("error", "commit_name", "commit_email", "signing", "signing_public_key"),
)
_TIMES = ("checked_at", "hook_seen_at", "created_at")


def document(connection: "Connection") -> dict[str, Any]:
    return to_document(connection, _FIELDS, _TIMES)


def line(connection: "Connection") -> list[Any]:
    fields = document(connection)
    state = connection.error or ("accepted" if connection.checked_at else "not checked")
    return [
        *(connection.name, connection.platform, connection.url, connection.account, state),
        *(fields["checked_at"], fields["hook_seen_at"]),
    ]


def account_document(account: "Account") -> dict[str, Any]:
    return {
        "login": account.login,
        "is_own": account.is_own,
        "missing_permissions": list(account.missing),
        "missing_extra_permissions": list(account.missing_extras),
        "rate_limit": _rate_limit_document(account),
    }


def _rate_limit_document(account: "Account") -> dict[str, Any] | None:
    limit = account.rate_limit
    if limit is None:
        return None
    resets_at = iso_utc_or_none(int(limit.resets_at) * SECOND_MS)
    return {"limit": limit.limit, "remaining": limit.remaining, "resets_at": resets_at}


def account_notes(
    settings: "Settings", connection: "Connection", account: "Account"
) -> Iterator[str]:
    """`connection` as it is stored after the check."""
    from agentjobs.connections.commits import describe_commits

    yield f"{connection.name} is {account.login} on {connection.url}."
    yield describe_commits(settings, connection)
    if not account.is_own:
        yield (
            f"{account.login} may be a person's account, in whose name pull requests are opened. "
            "Prefer an app, a bot, or an account that only this service uses."
        )
    if limit := _rate_limit_document(account):
        yield (
            f"{limit['remaining']} of {limit['limit']} API requests are left until"
            f" {limit['resets_at']}; polls use at most half of them."
        )
    for permission in account.missing:
        yield f"Warning: missing permission: {permission}"
    for permission in account.missing_extras:
        yield f"Not granted, and needed only for one feature: {permission}"


def hook_document(hook: "HookRow") -> dict[str, Any]:
    return {
        "repository": hook.full_name,
        "state": "removing" if hook.is_removing else hook.state,
        "note": hook.note,
        "delivery": hook.delivery or None,
        "is_failing": hook.is_failing,
        "checked_at": iso_utc_or_none(hook.checked_at),
    }


def hook_line(hook: "HookRow") -> list[Any]:
    fields = hook_document(hook)
    state = f"{fields['state']}: {hook.note}" if hook.note else fields["state"]
    return [hook.full_name, state, fields["delivery"], fields["checked_at"]]


def hook_notes(hooks: "list[HookRow]") -> Iterator[str]:
    """A summary, and a line for each different problem."""
    if not hooks:
        return
    working = sum(hook.state in {"registered", "covered"} for hook in hooks)
    yield f"Webhooks deliver for {working} of {len(hooks)} repositories that have one."
    notes = {hook.note: hook for hook in hooks if hook.state in {"pending", "refused"}}
    failing = {hook.delivery: hook for hook in hooks if hook.is_failing}
    for note, hook in [*notes.items(), *failing.items()]:
        yield f"{hook.full_name}: {note or 'its webhook is not registered yet.'}"
