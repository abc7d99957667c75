"""Settings, secrets: values are write-only."""

from collections.abc import Iterable

import msgspec
import pytest

from agentjobs.organizations.secrets import list_secrets, open_secret, set_secret
from agentjobs_runtime.agents.definitions import Agent, ModelAccess
from agentjobs_worker.agents.catalog import Catalog
from service.tests.unit.web.dashboard.browser import PAYLOAD
from service.tests.unit.web.dashboard.conftest import Dashboard
from tests.support.jobs import an_agent

PATH = "/settings/secrets"
VALUE = "sk-very-secret-0123456789"


def thinker(name: str, secret: str, plan: str = "free") -> Agent:
    model = ModelAccess(api="anthropic", url="https://models.example", secret=secret)
    return msgspec.structs.replace(an_agent(name.lower(), plan), name=name, model=model)


def offer(dashboard: Dashboard, agents: Iterable[Agent]) -> None:
    dashboard.context.catalog = Catalog(agents)


async def store_contents(dashboard: Dashboard, name: str) -> str | None:
    return await open_secret(
        dashboard.db, dashboard.context.keys, dashboard.caller.organization_id, name
    )


async def test_a_secret_is_set_and_never_shown(dashboard: Dashboard) -> None:
    page = await dashboard.admin.open(PATH)
    assert "No secrets" in page.text
    page = await dashboard.admin.send(page, PATH, name="MODEL_KEY", value=f" {VALUE}\n")
    assert page.path == PATH
    assert "MODEL_KEY was set." in page.text
    assert await store_contents(dashboard, "MODEL_KEY") == VALUE
    for each_page in (page, await dashboard.admin.open(f"{PATH}?name=MODEL_KEY")):
        assert VALUE not in each_page.html
        assert each_page.form(PATH).value("value") == ""


async def test_the_value_is_a_password_field_without_autocomplete(dashboard: Dashboard) -> None:
    page = await dashboard.admin.open(PATH)
    [attributes] = [
        attributes
        for tag, attributes in page.tags
        if tag == "input" and attributes.get("name") == "value"
    ]
    assert attributes["type"] == "password"
    assert attributes["autocomplete"] == "off"


async def test_a_secret_is_replaced(dashboard: Dashboard) -> None:
    await set_secret(dashboard.db, dashboard.context.keys, "acme", "MODEL_KEY", "old")
    page = await dashboard.admin.open(f"{PATH}?name=MODEL_KEY")
    assert "Replace secret" in page.text
    assert page.form(PATH).value("name") == "MODEL_KEY"
    page = await dashboard.admin.send(page, PATH, value=VALUE)
    assert "MODEL_KEY was" in page.text
    assert await store_contents(dashboard, "MODEL_KEY") == VALUE


async def test_a_secret_is_removed(dashboard: Dashboard) -> None:
    await set_secret(dashboard.db, dashboard.context.keys, "acme", "MODEL_KEY", VALUE)
    page = await dashboard.admin.send(await dashboard.admin.open(PATH), f"{PATH}/remove")
    assert "MODEL_KEY was removed." in page.text
    assert await list_secrets(dashboard.db, "acme") == []


async def test_removing_a_secret_twice_is_reported(dashboard: Dashboard) -> None:
    await set_secret(dashboard.db, dashboard.context.keys, "acme", "MODEL_KEY", VALUE)
    page, stale = await dashboard.admin.open_twice(PATH)
    await dashboard.admin.send(page, f"{PATH}/remove")
    page = await dashboard.admin.send(stale, f"{PATH}/remove")
    assert page.status == 404
    assert "no longer exists" in page.text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("no-hyphens", VALUE, "is not a valid secret name"),
        ("", VALUE, "is not a valid secret name"),
        ("MODEL_KEY", "  ", "Enter a value"),
        ("MODEL_KEY", "x" * 33_000, "at most 32,768 bytes"),
    ],
)
async def test_a_rejected_form_keeps_the_name_but_not_the_value(
    dashboard: Dashboard, name: str, value: str, text: str
) -> None:
    page = await dashboard.admin.open(PATH)
    page = await dashboard.admin.send(page, PATH, name=name, value=value)
    assert page.status == 400
    assert text in page.text
    assert page.form(PATH).value("name") == name
    assert page.form(PATH).value("value") == ""
    assert VALUE not in page.html
    assert await list_secrets(dashboard.db, "acme") == []


async def test_agents_are_listed_with_their_secret(dashboard: Dashboard) -> None:
    offer(dashboard, [thinker("Alpha", "KEY_A"), thinker("Beta", "KEY_A"), an_agent("plain")])
    page = await dashboard.admin.open(PATH)
    assert "Set KEY_A , for Alpha, Beta" in page.text
    assert f"{PATH}?name=KEY_A#add" in page.links
    page = await dashboard.admin.send(page, PATH, name="KEY_A", value=VALUE)
    assert "Jobs of these agents fail" not in page.text
    assert "Jobs of Alpha, Beta will fail." in page.text


async def test_secrets_of_agents_outside_the_plan_are_not_reported_missing(
    dashboard: Dashboard,
) -> None:
    await dashboard.harness.organization("small", "free")
    _, browser = await dashboard.add_user(
        "sam@small.example", dashboard.harness.callers["small"].organization_id, "admin"
    )
    offer(dashboard, [thinker("Big", "BIG_KEY", "enterprise"), thinker("Low", "LOW_KEY")])
    page = await browser.open(PATH)
    await browser.close()
    assert "LOW_KEY" in page.text
    assert "BIG_KEY" not in page.text


async def test_a_service_that_cannot_encrypt_reveals_no_path(dashboard: Dashboard) -> None:
    path = dashboard.context.keys.path
    path.write_text("no key at all")
    path.chmod(0o644)
    page = await dashboard.admin.open(PATH)
    page = await dashboard.admin.send(page, PATH, name="MODEL_KEY", value=VALUE)
    assert page.status == 503
    assert "Contact the" in page.text
    assert str(path) not in page.html


async def test_secrets_of_other_organizations_are_not_accessible(dashboard: Dashboard) -> None:
    await set_secret(dashboard.db, dashboard.context.keys, "other", "THEIR_KEY", VALUE)
    page = await dashboard.admin.open(PATH)
    assert "THEIR_KEY" not in page.html
    fields = [("csrf", page.form(PATH).value("csrf")), ("name", "THEIR_KEY")]
    assert (await dashboard.admin.post(f"{PATH}/remove", fields)).status == 404
    assert len(await list_secrets(dashboard.db, "other")) == 1


async def test_only_admins_can_open_the_page(dashboard: Dashboard) -> None:
    for browser in (dashboard.member, dashboard.viewer):
        assert (await browser.get(PATH)).status_code == 403
        csrf = (await browser.open("/account")).form("/sign-out").value("csrf")
        fields = [("csrf", csrf), ("name", "MODEL_KEY"), ("value", VALUE)]
        assert (await browser.post(PATH, fields)).status == 403
        assert (await browser.post(f"{PATH}/remove", fields)).status == 403
    assert await list_secrets(dashboard.db, "acme") == []


async def test_hostile_names_are_escaped(dashboard: Dashboard) -> None:
    offer(dashboard, [thinker(PAYLOAD, "KEY_A")])
    page = await dashboard.admin.open(PATH, params={"name": PAYLOAD})
    assert page.is_safe()
    assert page.form(PATH).value("name") == PAYLOAD
    page = await dashboard.admin.send(page, PATH, value=VALUE)
    assert page.status == 400
    assert page.is_safe()
    page = await dashboard.admin.send(page, PATH, name="KEY_A", value=VALUE)
    assert page.is_safe()
    assert PAYLOAD in page.text
