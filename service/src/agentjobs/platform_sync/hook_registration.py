"""Registers a webhook for a repository on its platform, finds it again and repairs it.

Part of a sync, whose lease keeps two processes from registering two. A webhook that does not match
is deleted and created again: Gitea cannot change a secret, and GitLab cannot re-enable a webhook.
"""

import random
import secrets

from agentjobs.connections.connections import load_connection
from agentjobs.connections.health import sync_backoff_ms
from agentjobs.connections.hook_urls import hook_path, hook_url, reason_unreachable
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platform_sync.claims import PlatformRepo
from agentjobs.platforms.http.traffic import PollsPaused
from agentjobs.platforms.protocol import Platform, PlatformError, RemoteHook
from agentjobs.repos import hook_rows
from agentjobs.repos.hook_rows import CheckedHook, DueHook
from agentjobs.store.database import Database
from agentjobs_runtime.clock import SECOND_MS
from agentjobs_runtime.settings import Settings

# A thousand repositories need less than 250 requests per hour.
CHECK_SECONDS = 6 * 3_600.0
# Somebody has to grant a permission or change a setting first.
REFUSED_SECONDS = 24 * 3_600.0
_MAX_NOTE_LENGTH = 500


class HookRegistration:
    """One per process."""

    def __init__(self, db: Database, settings: Settings, keys: SealingKeys) -> None:
        self._db = db
        self._public_url = settings.effective_public_url
        self._keys = keys

    async def sync(self, repo: PlatformRepo, platform: Platform) -> None:
        """Check the webhook if that is due, for a repository that the platform has just returned.

        Raises PlatformError only if the credential is not accepted or polls have to wait. Any other
        error is stored, and the check is repeated later.
        """
        due = await hook_rows.find_due(self._db, repo.id)
        if due is None:
            return
        try:
            checked = await self._check(due, repo, platform)
        except PlatformError as error:
            if error.fault == "unauthorized" or isinstance(error, PollsPaused):
                raise
            is_temporary = error.fault == "away"
            checked = CheckedHook(
                state="pending" if is_temporary else "refused", note=str(error)[:_MAX_NOTE_LENGTH]
            )
        wait_seconds = _wait_seconds(checked, due.failures)
        await self._db.transact(hook_rows.record_check, repo.id, checked, wait_seconds)

    async def _check(self, due: DueHook, repo: PlatformRepo, platform: Platform) -> CheckedHook:
        connection = await load_connection(self._db, repo.connection_id)
        platform_url = "" if connection is None else connection.url
        if reason := reason_unreachable(self._public_url, platform_url):
            return CheckedHook(state="refused", note=reason)
        shared_url = hook_url(self._public_url, repo.platform, repo.connection_id)
        shared = await platform.hooks.shared()
        if shared is not None:
            return _served_by_app(shared, shared_url)
        url = hook_url(self._public_url, repo.platform, repo.connection_id, repo.id)
        path = hook_path(repo.platform, repo.connection_id, repo.id)
        hooks = await platform.hooks.of_repository(repo.address)
        # One that a person created for all repositories of the connection makes ours unnecessary.
        by_hand = next((hook for hook in hooks if _delivers_to(hook, shared_url)), None)
        kept: RemoteHook | None = None
        for hook in hooks:
            if not hook.target_url.endswith(path):
                continue
            is_needed = by_hand is None and kept is None and due.has_secret
            if is_needed and _delivers_to(hook, url):
                kept = hook
            else:
                await platform.hooks.delete(repo.address, hook.hook_id)
        if by_hand is not None:
            return _checked(by_hand, "covered", "A webhook that was created by hand delivers.")
        return _checked(kept or await self._create(repo, platform, url), "registered")

    async def _create(self, repo: PlatformRepo, platform: Platform, url: str) -> RemoteHook:
        secret = secrets.token_hex(32)
        context = hook_rows.seal_context(repo.organization_id, repo.id)
        # Before the platform knows it: the first delivery may arrive before the response.
        await self._db.transact(hook_rows.store_secret, repo.id, self._keys.seal(secret, *context))
        return await platform.hooks.create(repo.address, url, secret)


async def open_registered_secret(
    db: Database, keys: SealingKeys, connection_id: str, repo_id: str
) -> tuple[str, str] | None:
    """The platform and the secret of a webhook; None if there is none. Raises DecryptionFailed."""
    row = await hook_rows.sealed_secret(db, connection_id, repo_id)
    if row is None:
        return None
    context = hook_rows.seal_context(row["organization_id"], repo_id)
    name = f"The webhook secret of {repo_id}"
    return row["platform"], keys.open_named(name, bytes(row["sealed"]), *context)


def _delivers_to(hook: RemoteHook, url: str) -> bool:
    return hook.is_complete and hook.target_url == url


def _served_by_app(hook: RemoteHook, url: str) -> CheckedHook:
    if hook.target_url == url:
        return _checked(hook, "covered", "The webhook of the GitHub App delivers.")
    return CheckedHook(
        state="refused",
        note=f"The webhook of the GitHub App delivers to {hook.target_url[:200]}; set its URL to"
        f" {url}, or deactivate it and delete its URL so that repositories get their own.",
    )


def _checked(hook: RemoteHook, state: hook_rows.HookState, note: str | None = None) -> CheckedHook:
    return CheckedHook(state=state, note=note, delivery=hook.delivery, is_failing=hook.is_failing)


def _wait_seconds(checked: CheckedHook, failures: int) -> float:
    if checked.state == "pending":
        return sync_backoff_ms(failures) / SECOND_MS
    seconds = REFUSED_SECONDS if checked.state == "refused" else CHECK_SECONDS
    # Spreads the checks of repositories that were connected together.
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret
