"""Settings, Platforms: connecting a platform, its state and its repositories."""

import asyncio
from functools import partial

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agentjobs.connections.connections import list_connections, open_credential, open_hook_secret
from agentjobs.connections.repositories import connect_repositories
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.protocol import Account, PlatformError, RemoteRepository
from agentjobs.repos.hook_rows import CheckedHook, hooks_of_connection, record_check
from agentjobs.repos.queries import list_repos
from agentjobs.web.dashboard.settings import platform_access
from service.tests.unit.web.dashboard.browser import PAYLOAD
from service.tests.unit.web.dashboard.page_safety import safety_faults
from service.tests.unit.web.dashboard.platform_data import ACCEPTED, platforms_of, table_of
from tests.support.memory_platform import MemoryPlatform
from tests.support.repo_rows import write_repos

HERE = "/settings/platforms"
GITEA = {"platform": "gitea", "url": "https://git.example.org", "token": ACCEPTED}


@pytest.fixture
def table(dashboard):
    repositories = table_of()
    dashboard.context.platforms = platforms_of(dashboard.harness, repositories)
    return repositories


@pytest.fixture
async def connection(dashboard, table):
    """A new connection of acme."""
    page = await dashboard.admin.send(await dashboard.admin.open(HERE), HERE, **GITEA)
    assert page.status == 200, page.text
    (added,) = await list_connections(dashboard.db, "acme")
    return added


def secret_on(page):
    ids = [attributes.get("id") for _, attributes in page.tags]
    return "hook-secret" in ids


async def test_without_connections_the_page_explains_platforms(dashboard):
    page = await dashboard.admin.open(HERE)
    assert "No platforms connected" in page.text
    assert "Connect GitHub, GitLab, Gitea or Forgejo with a token" in page.text
    assert "#add" in page.links
    page = await dashboard.member.open(HERE)
    assert "An admin can connect" in page.text
    assert not page.has_form(HERE)
    assert HERE in page.links


async def test_a_new_connection_shows_its_webhook_secret_once(dashboard, table):
    admin = dashboard.admin
    page = await admin.send(await admin.open(HERE), HERE, **GITEA, name="forge")
    (connection,) = await list_connections(dashboard.db, "acme")
    _, secret = await open_hook_secret(dashboard.db, dashboard.context.keys, connection.id)
    assert (page.status, connection.name, table.requests) == (200, "forge", ["check"])
    assert secret in page.text
    assert f"http://127.0.0.1:8080/hooks/gitea/{connection.id}" in page.text
    assert "Connected to https://git.example.org as agentjobs-bot" in page.text
    for path in (HERE, f"{HERE}/{connection.id}"):
        later = await dashboard.member.open(path)
        assert secret not in later.html
        assert ACCEPTED not in page.html + later.html
        for text in ("forge", "agentjobs-bot", "connected", "never"):
            assert text in later.text
    log = await admin.open("/settings/audit-log")
    assert "Platform connected" in log.text
    assert secret not in log.html


async def test_missing_permissions_are_shown_with_the_platforms_names(dashboard, table):
    table.account = Account(f"ada{PAYLOAD}", is_own=False, missing=(f"write:issue{PAYLOAD}",))
    page = await dashboard.admin.send(await dashboard.admin.open(HERE), HERE, **GITEA)
    assert "This may be a personal account" in page.text
    assert f"write:issue{PAYLOAD}" in page.text
    assert safety_faults(page) == []


REFUSED_CONNECTIONS = [
    ({"platform": "svn"}, "Choose a platform", "platform"),
    ({"url": ""}, "Enter the address of the platform, such as", "url"),
    ({"url": "ftp://git.example.org"}, "must start with https://", "url"),
    ({"url": "https://me:it@git.example.org"}, "must not contain a credential", "url"),
    ({"name": "No Name"}, "is not a valid name", "name"),
    ({"token": ""}, "The token is empty", "token"),
    ({"token": "two words-secret"}, "no spaces; copy it again", "token"),
    ({"token": "wrong-secret"}, "Bad credentials", "token"),
    (
        {"token": "-----BEGIN-secret"},
        "enter its App ID, installation ID and private key",
        "token",
    ),
    ({"app_id": "12"}, "Only GitHub supports apps", "app_id"),
    ({"platform": "github", "app_id": "12"}, "an App ID and an installation ID", "app_id"),
    ({"private_key": "a-secret"}, "not both. Nothing was stored", "private_key"),
    ({"token": "", "private_key": "a-secret"}, "App ID and the installation ID as well", "app_id"),
]


async def test_a_rejected_form_keeps_the_entered_values_but_no_secret(dashboard, table, subtests):
    admin = dashboard.admin
    for values, text, field in REFUSED_CONNECTIONS:
        with subtests.test(repr(values)):
            page = await admin.send(
                await admin.open(HERE), HERE, **{**GITEA, "name": "forge", **values}
            )
            assert 400 <= page.status < 500
            assert text in page.text
            assert "secret" not in "".join(value for _, value in page.form(HERE).fields)
            assert "--" not in page.text.replace("-----BEGIN", "")
            assert "`" not in page.text
            form = page.form(HERE)
            assert form.value("url") == values.get("url", GITEA["url"])
            assert form.value("name") == values.get("name", "forge")
            wrong = [tags.get("name") for _, tags in page.tags if tags.get("aria-invalid")]
            assert wrong == [field]
            assert await list_connections(dashboard.db, "acme") == []


async def test_a_github_app_is_connected_by_its_private_key_and_moved_to_another_installation(
    dashboard, table
):
    private_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private_key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()
    app = {"platform": "github", "app_id": "12", "installation_id": "34"}
    admin = dashboard.admin
    for key in ("nonsense-secret", pem):
        page = await admin.send(await admin.open(HERE), HERE, **app, private_key=key)
        assert page.status == 422
        assert key.splitlines()[-1] not in page.html
        assert page.form(HERE).value("app_id") == "12"
    table.accepted = {pem}
    page = await admin.send(await admin.open(HERE), HERE, **app, private_key=pem)
    assert "GitHub App 12, installation 34" in page.text
    (connection,) = await list_connections(dashboard.db, "acme")
    repeated = await admin.send(
        await admin.open(f"{HERE}/{connection.id}"), "/credential", private_key="x"
    )
    assert "must be an RSA key" in repeated.text
    assert pem.splitlines()[1] not in page.html + repeated.html
    _, credential = await open_credential(dashboard.db, dashboard.context.keys, connection.id)
    assert credential == pem

    path = f"{HERE}/{connection.id}"
    page = await admin.send(await admin.open(path), "/installation", installation_id="x35")
    assert (page.status, "installation 34" in page.text) == (400, True)
    assert safety_faults(page) == []
    table.fault = PlatformError("The GitHub App has no installation 35", "unauthorized")
    page = await admin.send(page, "/installation", installation_id="35")
    assert "has no installation 35" in page.text
    assert "installation 34" in page.text
    table.fault = None
    page = await admin.send(page, "/installation", installation_id="35")
    assert "Connected to https://github.com as agentjobs-bot" in page.text
    assert "GitHub App 12, installation 35" in page.text
    assert "Platform installation replaced" in (await admin.open("/settings/audit-log")).text


async def test_only_an_app_has_an_installation(dashboard, connection):
    page = await dashboard.admin.open(f"{HERE}/{connection.id}")
    assert not page.has_form("/installation")


async def test_a_check_records_the_platforms_error(dashboard, table, connection):
    admin, path = dashboard.admin, f"{HERE}/{connection.id}"
    table.fault = PlatformError(f"Bad credentials{PAYLOAD}", "unauthorized")
    page = await admin.send(await admin.open(path), "/check")
    assert page.status == 422
    for each_page in (page, await admin.open(path), await admin.open(HERE)):
        assert f"Bad credentials{PAYLOAD}" in each_page.text
        assert safety_faults(each_page) == []
    table.fault = None
    page = await admin.send(page, "/check")
    assert "as agentjobs-bot" in page.text
    assert "Bad credentials" not in (await admin.open(HERE)).text


async def test_a_new_credential_is_saved_only_if_the_platform_accepts_it(
    dashboard, table, connection
):
    admin, path = dashboard.admin, f"{HERE}/{connection.id}"
    page = await admin.send(await admin.open(path), "/credential", token="wrong-secret")
    assert page.status == 422
    assert "Bad credentials" in page.text
    assert "wrong-secret" not in page.html
    opened = partial(open_credential, dashboard.db, dashboard.context.keys, connection.id)
    assert (await opened())[1] == ACCEPTED
    table.accepted = {"better-secret"}
    page = await admin.send(page, "/credential", token="better-secret")
    assert "The new credential is in use" in page.text
    assert "better-secret" not in page.html
    assert (await opened())[1] == "better-secret"


async def test_a_changed_webhook_secret_is_shown_once(dashboard, connection):
    admin, path = dashboard.admin, f"{HERE}/{connection.id}"
    before = await open_hook_secret(dashboard.db, dashboard.context.keys, connection.id)
    page = await admin.send(await admin.open(path), "/hook-secret")
    _, secret = await open_hook_secret(dashboard.db, dashboard.context.keys, connection.id)
    assert secret != before[1]
    assert secret in page.text
    later = await admin.open(path)
    assert not secret_on(later)
    assert secret not in later.html


async def test_signing_is_chosen_and_the_public_key_shown(dashboard, table, connection):
    admin, path = dashboard.admin, f"{HERE}/{connection.id}"
    assert "agentjobs-bot" in (await admin.open(path)).text
    page = await admin.send(await admin.open(path), "/signing", signing="ssh")
    assert page.status == 200
    assert "The account on the platform has the key" in page.text
    (key,) = table.signing_keys
    assert key in page.text
    assert key in (await dashboard.member.open(path)).text
    assert "PRIVATE" not in page.html
    signed = await admin.send(page, "/signed-token", signed_token=f"0123{PAYLOAD}")
    assert "-----BEGIN SSH SIGNATURE-----" in signed.text
    assert safety_faults(signed) == []
    table.key_fault = PlatformError(f"It needs write:user{PAYLOAD}", "denied")
    page = await admin.send(page, "/signing", signing="ssh", new_key="yes")
    assert f"It needs write:user{PAYLOAD} Add it at https://git.example.org" in page.text
    assert key not in page.text
    assert safety_faults(page) == []
    page = await admin.send(page, "/signing", signing="platform")
    assert page.status == 422
    assert "only those of an App" in page.text
    page = await admin.send(page, "/signing", signing="none")
    assert "not signed" in page.text


async def test_only_an_unused_connection_can_be_removed(dashboard, table, connection):
    admin, path = dashboard.admin, f"{HERE}/{connection.id}"
    await connect_repositories(dashboard.db, dashboard.context.platforms, "acme", connection.id)
    await write_repos(dashboard.db, "sync_error = :text", text=f"It is gone{PAYLOAD}")
    page = await admin.send(await admin.open(path), "/remove")
    assert page.status == 409
    assert "disconnect them first." in page.text
    assert f"It is gone{PAYLOAD}" in page.text
    assert "/repos/acme/app" in page.links
    assert safety_faults(page) == []
    repo_page = await admin.open("/repos/acme/app/settings")
    await admin.send(repo_page, "/disconnect")
    page = await admin.send(page, "/remove")
    assert "Revoke its credential on https://git.example.org" in page.text
    assert (await admin.open(path)).status == 404


async def test_the_error_for_a_locked_credential_names_no_file(dashboard, connection):
    admin = dashboard.admin
    (dashboard.context.settings.data_path / "encryption.key").unlink()
    dashboard.context.keys = SealingKeys.load(dashboard.context.settings)
    dashboard.context.platforms = platforms_of(dashboard.harness)
    page = await admin.send(await admin.open(f"{HERE}/{connection.id}"), "/check")
    assert page.status == 422
    for each_page in (page, await admin.open(HERE)):
        assert (
            "The credential of gitea cannot be decrypted. Replace it, or contact" in each_page.text
        )
        assert "encryption.key" not in each_page.text


async def test_repositories_of_the_platform_are_listed_with_their_actions(
    dashboard, table, connection
):
    path = f"{HERE}/{connection.id}/repositories"
    table.available += [
        RemoteRepository("72", "group/sub/project", "main"),
        RemoteRepository("73", f"acme/{PAYLOAD}", f"main{PAYLOAD}", is_archived=True),
        RemoteRepository("74", "acme/.github", ""),
    ]
    platforms = dashboard.context.platforms
    await connect_repositories(dashboard.db, platforms, "acme", connection.id, ["acme/app"])
    page = await dashboard.admin.open(path)
    assert safety_faults(page) == []
    (form,) = [form for form in page.forms if "repo" in form.choices]
    assert form.choices["repo"] == ["group/sub/project"]
    for text in ("connected", "It is archived", "It is empty", f"acme/{PAYLOAD}"):
        assert text in page.text
    seen_by_members = await dashboard.member.open(path)
    assert "checkbox" not in seen_by_members.html
    results = await dashboard.admin.open(f"{path}?q=SUB+proj")
    assert "group/sub/project" in results.text
    assert "acme/app" not in results.text
    none = await dashboard.admin.open(f"{path}?q={PAYLOAD}nowhere")
    assert "No repositories match" in none.text
    assert safety_faults(none) == []


async def test_selected_repositories_are_connected_and_rejections_have_reasons(
    dashboard, table, connection
):
    admin, path = dashboard.admin, f"{HERE}/{connection.id}/repositories"
    table.available += [
        RemoteRepository("72", "group/sub/project", "main"),
        RemoteRepository("73", "acme/old", "main", is_archived=True),
    ]
    csrf = (await admin.open("/account")).form("/sign-out").value("csrf")
    fields = [("csrf", csrf), ("repo", "group/sub/project"), ("repo", "acme/old")]
    page = await admin.post(path, [*fields, ("names", f"acme/ghost\n{PAYLOAD}")])
    assert page.status == 200
    assert "Connected; fetching now: group/sub/project" in page.text
    assert "acme/old : It is archived" in page.text
    assert "acme/ghost : There is no repository acme/ghost." in page.text
    assert "is not a valid repository name" in page.text
    assert safety_faults(page) == []
    repos = await list_repos(dashboard.db, dashboard.caller.organization_id)
    names = [repo.full_name for repo in repos]
    assert "group/sub/project" in names
    assert "acme/old" not in names
    csrf = page.form("/sign-out").value("csrf")
    page = await admin.post(path, [("csrf", csrf), ("repo", "acme/app")])
    assert "1 repository connected." in page.text
    assert "group/sub/project" in page.text
    page = await admin.post(path, [("csrf", page.form("/sign-out").value("csrf"))])
    assert page.status == 400
    assert "Select repositories or enter their names." in page.text


async def test_all_connectable_repositories_are_connected_at_once(dashboard, table, connection):
    admin, path = dashboard.admin, f"{HERE}/{connection.id}/repositories"
    table.available += [RemoteRepository(f"x{at}", f"acme/r{at}", "main") for at in range(150)]
    page = await admin.open(path)
    assert "Showing the first 100 of 151" in page.text
    csrf = page.form("/sign-out").value("csrf")
    page = await admin.post(path, [("csrf", csrf), ("all", "yes")])
    assert "151 repositories connected." in page.text
    assert "Showing the first 100 of 151" in page.text
    # Repositories that are already connected are not rejections.
    csrf = page.form("/sign-out").value("csrf")
    page = await admin.post(path, [("csrf", csrf), ("all", "yes")])
    assert "0 repositories connected." in page.text


async def test_an_unreachable_platform_is_reported_on_the_page(dashboard, table, connection):
    path = f"{HERE}/{connection.id}/repositories"
    table.fault = PlatformError("Gitea could not be reached; try again later.", "away")
    page = await dashboard.admin.open(path)
    assert page.status == 503
    assert "Gitea could not be reached" in page.text
    assert "Connect by name" in page.text
    assert "It sees no repository" not in page.text
    error_page = await dashboard.admin.send(page, "/repositories", names="acme/app acme/web")
    assert error_page.status == 503
    assert "acme/app : Gitea could not be reached" in error_page.text


async def test_a_platform_that_does_not_respond_times_out(
    dashboard, table, connection, monkeypatch
):
    async def never(self):
        await asyncio.Event().wait()
        yield

    async def hangs(self):
        await asyncio.Event().wait()

    monkeypatch.setattr(platform_access, "MAX_SECONDS", 0.01)
    monkeypatch.setattr(MemoryPlatform, "repositories", never)
    monkeypatch.setattr(MemoryPlatform, "check", hangs)
    path = f"{HERE}/{connection.id}"
    page = await dashboard.member.open(f"{path}/repositories")
    assert page.status == 503
    assert "gitea did not respond within" in page.text
    page = await dashboard.admin.send(await dashboard.admin.open(path), "/check")
    assert page.status == 503
    assert "did not respond" in (await dashboard.admin.open(HERE)).text


async def test_a_service_without_platform_access_says_so(dashboard, connection):
    dashboard.context.platforms = None
    page = await dashboard.admin.open(f"{HERE}/{connection.id}/repositories")
    assert page.status == 503
    assert "This service cannot reach any platform" in page.text


@pytest.mark.parametrize("suffix", ["", "/repositories"])
async def test_a_connection_of_another_organization_is_not_found(dashboard, connection, suffix):
    for name in (connection.id, connection.name, "fcn_nowhere"):
        page = await dashboard.outsider.open(f"{HERE}/{name}{suffix}")
        assert page.status == 404
        assert "There is no such connection" in page.text


async def post(browser, path, **fields):
    csrf = (await browser.open("/account")).form("/sign-out").value("csrf")
    return await browser.post(path, [("csrf", csrf), *fields.items()])


async def connect_by_name(browser, path, **fields):
    """The page has several forms for this."""
    page = await post(browser, f"{path}/repositories", **fields)
    assert "1 repository connected." in page.text


async def test_webhooks_are_registered_unless_declined_and_turned_off_again(dashboard, table):
    admin = dashboard.admin
    # The service of this test has an address on loopback, which only such a platform can reach.
    nearby = {**GITEA, "url": "https://127.0.0.1:3000"}
    await admin.send(await admin.open(HERE), HERE, **nearby)
    (connection,) = await list_connections(dashboard.db, "acme")
    path = f"{HERE}/{connection.id}"
    table.available.append(RemoteRepository("72", "acme/second", "main"))
    await connect_by_name(admin, path, names="acme/app")
    await connect_by_name(admin, path, names="acme/second", no_webhooks="yes")
    hooks = await hooks_of_connection(dashboard.db, connection.id)
    assert [(hook.full_name, hook.state) for hook in hooks] == [("acme/app", "pending")]
    checked = CheckedHook(
        state="registered", is_failing=True, delivery=f"502 {PAYLOAD}", note=PAYLOAD
    )
    await dashboard.db.transact(record_check, hooks[0].repo_id, checked, 60.0)
    for address in (path, "/repos/acme/app/settings"):
        page = await admin.open(address)
        assert "deliveries fail" in page.text
        assert f"Last delivery: 502 {PAYLOAD}" in page.text
        assert safety_faults(page) == []
    await post(admin, f"{path}/webhooks")
    assert len(await hooks_of_connection(dashboard.db, connection.id)) == 2
    await post(admin, f"{path}/webhooks", remove="yes")
    hooks = await hooks_of_connection(dashboard.db, connection.id)
    assert [hook.is_removing for hook in hooks] == [True, True]
    assert "being removed" in (await admin.open(path)).text


async def test_a_service_without_a_public_address_says_why_it_registers_no_webhooks(
    dashboard, connection, table
):
    path = f"{HERE}/{connection.id}"
    page = await dashboard.admin.open(f"{path}/repositories")
    assert "git.example.org cannot reach this service" in page.text
    await connect_by_name(dashboard.admin, path, names="acme/app")
    assert await hooks_of_connection(dashboard.db, connection.id) == []
    page = await dashboard.admin.open(path)
    assert "Webhooks cannot be registered: git.example.org cannot reach" in page.text
