"""Whom commits of a connection name: its account, with an address that the platform knows."""

from pathlib import Path

from agentjobs_runtime.git.identity import Identity
from tests.support.forge_servers.faults import Fault
from tests.support.forge_servers.gitea import GiteaServer
from tests.support.forge_servers.github import GitHubServer
from tests.support.forge_servers.gitlab import GitLabServer
from tests.support.platform_adapters import (
    PlatformHarness,
    platform_harness,
)


async def find_identity(harness: PlatformHarness) -> Identity | None:
    return (await harness.platform.check()).identity


async def test_commits_name_the_account_with_an_address_that_the_platform_links(
    harness: PlatformHarness,
) -> None:
    users = harness.server.state.users
    bot, account = users.get("agentjobs[bot]"), users["agentjobs-bot"]
    account.name = "Agent <Jobs>\nBot"
    noreply = "users.noreply.127.0.0.1"
    expected = {
        "github": ("Agent Jobs Bot", f"{account.id}+agentjobs-bot@{noreply}"),
        "github-app": ("agentjobs[bot]", f"{bot and bot.id}+agentjobs[bot]@{noreply}"),
        "gitlab": ("Agentjobs-Bot", "agentjobs-bot@example.com"),
        "gitea": ("Agent Jobs Bot", "agentjobs-bot@example.com"),
    }
    assert await find_identity(harness) == Identity(*expected[harness.kind])


async def test_a_hidden_address_is_not_published(harness: PlatformHarness) -> None:
    account = harness.server.state.users["agentjobs-bot"]
    account.hides_email = True
    if isinstance(harness.server, GitHubServer):
        harness.server.scopes = "repo, user:email"
    if isinstance(harness.server, GitLabServer):
        # GitLab returns the private address itself; older versions return none.
        harness.server.commit_email = None
    identity = await find_identity(harness)
    assert identity is not None
    assert "example.com" not in identity.email
    assert identity.email.rpartition("@")[2] in {"users.noreply.127.0.0.1", "noreply.127.0.0.1"}


async def test_a_person_is_named_by_an_address_of_the_platform(harness: PlatformHarness) -> None:
    ada = harness.server.state.add_user("ada")
    ada.hides_email = True
    expected = {
        "github": f"{ada.id}+ada@users.noreply.127.0.0.1",
        "gitlab": f"{ada.id}-ada@users.noreply.127.0.0.1",
        "gitea": "ada@noreply.localhost",
    }
    identity = await harness.platform.find_identity("ada")
    assert identity is not None
    assert identity.email == expected[harness.server.platform]
    assert await harness.platform.find_identity("nobody") is None


async def test_a_github_token_that_may_read_addresses_uses_the_primary_one(
    tmp_path: Path, template: Path
) -> None:
    async with platform_harness("github", tmp_path, template) as harness:
        assert isinstance(harness.server, GitHubServer)
        harness.server.scopes = "repo, user"
        identity = await find_identity(harness)
        assert identity == Identity("agentjobs-bot", "agentjobs-bot@example.com")
        harness.server.scopes = None
        identity = await find_identity(harness)
        assert identity is not None
        assert identity.email.endswith("@users.noreply.127.0.0.1")


async def test_a_gitea_without_the_setting_still_names_the_account(
    tmp_path: Path, template: Path
) -> None:
    async with platform_harness("gitea", tmp_path, template) as harness:
        harness.server.next(Fault(on="GET /user/settings", status=404, message="Not found."))
        identity = await find_identity(harness)
        assert identity == Identity("agentjobs-bot", "agentjobs-bot@example.com")


async def test_a_signing_key_is_registered_once_with_the_account(
    harness: PlatformHarness,
) -> None:
    server, key = harness.server, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGFhYWFhYWFhYWE"
    if harness.kind == "github-app":
        error = await harness.error_of(harness.platform.register_signing_key("agentjobs", key))
        assert error.fault == "denied"
        return
    if isinstance(server, GitHubServer):
        server.scopes = "repo, write:ssh_signing_key"
    if isinstance(server, GiteaServer):
        assert server.scopes is not None
        server.scopes.add("write:user")
    # More than fit on a page, so that the key is found on a later one.
    server.state.ssh_keys += [
        {"title": "other", "key": f"ssh-rsa {number:05}"} for number in range(60)
    ]
    for _ in range(2):
        await harness.platform.register_signing_key("agentjobs", key)
    (added,) = [known for known in server.state.ssh_keys if known["title"] == "agentjobs"]
    assert added["key"].startswith(key)
    assert added.get("usage_type") == ("signing" if server.platform == "gitlab" else None)


async def test_a_token_that_may_not_add_keys_is_told_which_permission_it_needs(
    harness: PlatformHarness,
) -> None:
    if isinstance(harness.server, GitLabServer):
        # A token that may read everything may still not add a key.
        harness.server.scopes = ["read_api"]
    error = await harness.error_of(
        harness.platform.register_signing_key("agentjobs", "ssh-ed25519 AAAA")
    )
    assert error.fault == "denied"
    permissions = {"github": "SSH signing keys", "gitlab": "scope api", "gitea": "write:user"}
    assert permissions[harness.server.platform] in str(error)
    assert harness.server.state.ssh_keys == []
