"""Settings, secrets of environments: values are write-only."""

import pytest

from agentjobs.environments.secrets import list_environment_secrets, open_setup_secrets
from agentjobs.repos.queries import find_repo
from service.tests.unit.web.dashboard.browser import PAYLOAD
from service.tests.unit.web.dashboard.conftest import Dashboard

PATH = "/settings/secrets/environments"
VALUE = "npm_very-secret-0123456789"


async def stored_names(dashboard: Dashboard) -> list[str]:
    listed = await list_environment_secrets(dashboard.db, dashboard.caller.organization_id)
    return [each.definition.name for each in listed]


async def test_a_secret_for_setup_is_set_replaced_and_removed(dashboard: Dashboard) -> None:
    page = await dashboard.admin.open(PATH)
    assert "No secrets" in page.text
    for value, verb in ((f" {VALUE}\n", "set"), ("another value", "replaced")):
        page = await dashboard.admin.send(
            page, PATH, purpose="setup", repo="acme/shop", name="NPM_TOKEN", value=value
        )
        assert f"NPM_TOKEN was {verb}." in page.text
        assert value.strip() not in page.html
        repo = await find_repo(dashboard.db, dashboard.caller.organization_id, "acme/shop")
        opened = await open_setup_secrets(dashboard.db, dashboard.context.keys, repo.id)
        assert opened == {"NPM_TOKEN": value.strip()}
    page = await dashboard.admin.send(page, f"{PATH}/remove")
    assert "NPM_TOKEN was removed." in page.text
    assert await stored_names(dashboard) == []


async def test_secrets_for_hosts_are_shown_without_values(dashboard: Dashboard) -> None:
    page = await dashboard.admin.open(PATH)
    page = await dashboard.admin.send(
        page,
        PATH,
        purpose="proxy",
        repo="acme/shop",
        name="ART",
        value=VALUE,
        host="packages.acme.test",
        header="Authorization: Bearer {secret}",
        path_prefix="/npm",
        kind="npm",
    )
    assert "packages.acme.test/npm" in page.text
    page = await dashboard.admin.send(
        page,
        PATH,
        purpose="registry",
        name="HUB",
        value=VALUE,
        host="registry.test",
        username="ada",
    )
    assert "registry.test as ada" in page.text
    assert VALUE not in page.html
    assert sorted(await stored_names(dashboard)) == ["ART", "HUB"]


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"value": " "}, 400, "Enter a value"),
        ({"repo": "acme/none"}, 422, "No repository acme/none is connected"),
        ({"repo": ""}, 400, "Name the repository"),
        ({"repo": "other/shop"}, 422, "No repository other/shop is connected"),
        ({"purpose": "proxy"}, 400, "needs a host"),
        ({"purpose": "all"}, 400, "is for setup, proxy or registry"),
        ({"name": PAYLOAD}, 400, "is not a valid secret name"),
    ],
)
async def test_a_rejected_form_keeps_everything_but_the_value(
    dashboard: Dashboard, fields: dict[str, str], status: int, text: str
) -> None:
    sent = {"purpose": "setup", "repo": "acme/shop", "name": "NPM_TOKEN", "value": VALUE} | fields
    page = await dashboard.admin.open(PATH)
    page = await dashboard.admin.send(page, PATH, **sent)
    assert page.status == status
    assert text in page.text
    assert page.is_safe()
    assert page.form(PATH).value("name") == sent["name"]
    assert page.form(PATH).value("repo") == sent["repo"]
    assert VALUE not in page.html
    assert await stored_names(dashboard) == []


async def test_removing_a_secret_twice_is_reported(dashboard: Dashboard) -> None:
    page = await dashboard.admin.open(PATH)
    await dashboard.admin.send(
        page, PATH, purpose="setup", repo="acme/shop", name="NPM_TOKEN", value=VALUE
    )
    page, stale = await dashboard.admin.open_twice(PATH)
    await dashboard.admin.send(page, f"{PATH}/remove")
    page = await dashboard.admin.send(stale, f"{PATH}/remove")
    assert page.status == 404
    assert "no longer exists" in page.text


async def test_a_service_that_cannot_encrypt_reveals_no_path(dashboard: Dashboard) -> None:
    path = dashboard.context.keys.path
    path.write_text("no key at all")
    path.chmod(0o644)
    page = await dashboard.admin.open(PATH)
    page = await dashboard.admin.send(
        page, PATH, purpose="setup", repo="acme/shop", name="NPM_TOKEN", value=VALUE
    )
    assert page.status == 503
    assert str(path) not in page.html
