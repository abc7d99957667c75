"""Settings, secrets: a value goes in, and no page ever shows it."""

from collections.abc import Iterable

import msgspec
import pytest

from agentjobs.agents.catalog import Catalog
from agentjobs.agents.definitions import Agent, ModelAccess
from agentjobs.organizations.secrets import list_secrets, open_secret, set_secret
from tests.support.jobs import an_agent
from tests.unit.web.dashboard.browser import PAYLOAD
from tests.unit.web.dashboard.conftest import Dashboard

PATH = "/settings/secrets"
VALUE = "sk-very-secret-0123456789"


def thinker(name: str, secret: str, plan: str = "free") -> Agent:
    model = ModelAccess(api="anthropic", url="https://models.example", secret=secret)
    return msgspec.structs.replace(an_agent(name.lower(), plan), name=name, model=model)


def offer(dashboard: Dashboard, agents: Iterable[Agent]) -> None:
    dashboard.context.catalog = Catalog(agents)


async def stored(dashboard: Dashboard, name: str) -> str | None:
    return await open_secret(
        dashboard.db, dashboard.context.keys, dashboard.caller.organization_id, name
    )


async def test_a_secret_is_set_and_never_shown(dashboard: Dashboard) -> None:
    page = await dashboard.admin.open(PATH)
    assert "No secrets" in page.text
    page = await dashboard.admin.send(page, PATH, name="MODEL_KEY", value=f" {VALUE}\n")
    assert page.path == PATH
    assert "MODEL_KEY was set." in page.text
    assert await stored(dashboard, "MODEL_KEY") == VALUE
    for shown in (page, await dashboard.admin.open(f"{PATH}?name=MODEL_KEY")):
        assert VALUE not in shown.html
        assert shown.form(PATH).value("value") == ""


async def test_the_value_is_typed_unseen_and_not_remembered(dashboard: Dashboard) -> None:
    page = await dashboard.admin.open(PATH)
    [given] = [given for tag, given in page.tags if tag == "input" and given.get("name") == "value"]
    assert given["type"] == "password"
    assert given["autocomplete"] == "off"


async def test_a_secret_is_replaced(dashboard: Dashboard) -> None:
    await set_secret(dashboard.db, dashboard.context.keys, "acme", "MODEL_KEY", "old")
    page = await dashboard.admin.open(f"{PATH}?name=MODEL_KEY")
    assert "Replace secret" in page.text
    assert page.form(PATH).value("name") == "MODEL_KEY"
    page = await dashboard.admin.send(page, PATH, value=VALUE)
    assert "MODEL_KEY was" in page.text
    assert await stored(dashboard, "MODEL_KEY") == VALUE


async def test_a_secret_is_removed(dashboard: Dashboard) -> None:
    await set_secret(dashboard.db, dashboard.context.keys, "acme", "MODEL_KEY", VALUE)
    page = await dashboard.admin.send(await dashboard.admin.open(PATH), f"{PATH}/remove")
    assert "MODEL_KEY was removed." in page.text
    assert await list_secrets(dashboard.db, "acme") == []


async def test_removing_what_is_gone_says_so(dashboard: Dashboard) -> None:
    await set_secret(dashboard.db, dashboard.context.keys, "acme", "MODEL_KEY", VALUE)
    page, stale = await dashboard.admin.open_twice(PATH)
    await dashboard.admin.send(page, f"{PATH}/remove")
    page = await dashboard.admin.send(stale, f"{PATH}/remove")
    assert page.status == 404
    assert "no longer exists" in page.text


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("no-hyphens", VALUE, "is not a valid secret name"),
        ("", VALUE, "is not a valid secret name"),
        ("MODEL_KEY", "  ", "Enter a value"),
        ("MODEL_KEY", "x" * 33_000, "at most 32,768 bytes"),
    ],
)
async def test_a_refused_form_keeps_the_name_and_forgets_the_value(
    dashboard: Dashboard, name: str, value: str, words: str
) -> None:
    page = await dashboard.admin.open(PATH)
    page = await dashboard.admin.send(page, PATH, name=name, value=value)
    assert page.status == 400
    assert words in page.text
    assert page.form(PATH).value("name") == name
    assert page.form(PATH).value("value") == ""
    assert VALUE not in page.html
    assert await list_secrets(dashboard.db, "acme") == []


async def test_agents_are_named_with_their_secret(dashboard: Dashboard) -> None:
    offer(dashboard, [thinker("Alpha", "KEY_A"), thinker("Beta", "KEY_A"), an_agent("plain")])
    page = await dashboard.admin.open(PATH)
    assert "Set KEY_A , for Alpha, Beta" in page.text
    assert f"{PATH}?name=KEY_A#set-title" in page.links
    page = await dashboard.admin.send(page, PATH, name="KEY_A", value=VALUE)
    assert "Jobs of these agents fail" not in page.text
    assert "Jobs of Alpha, Beta will fail." in page.text


async def test_a_secret_of_agents_beyond_the_plan_is_not_missed(dashboard: Dashboard) -> None:
    await dashboard.harness.organization("small", "free")
    _, browser = await dashboard.add_user(
        "sam@small.example", dashboard.harness.callers["small"].organization_id, "admin"
    )
    offer(dashboard, [thinker("Big", "BIG_KEY", "enterprise"), thinker("Low", "LOW_KEY")])
    page = await browser.open(PATH)
    await browser.close()
    assert "LOW_KEY" in page.text
    assert "BIG_KEY" not in page.text


async def test_a_service_that_cannot_seal_names_no_file(dashboard: Dashboard) -> None:
    path = dashboard.context.keys.path
    path.write_text("no key at all")
    path.chmod(0o644)
    page = await dashboard.admin.open(PATH)
    page = await dashboard.admin.send(page, PATH, name="MODEL_KEY", value=VALUE)
    assert page.status == 503
    assert "Contact the" in page.text
    assert str(path) not in page.html


async def test_secrets_of_others_stay_theirs(dashboard: Dashboard) -> None:
    await set_secret(dashboard.db, dashboard.context.keys, "other", "THEIR_KEY", VALUE)
    page = await dashboard.admin.open(PATH)
    assert "THEIR_KEY" not in page.html
    fields = [("csrf", page.form(PATH).value("csrf")), ("name", "THEIR_KEY")]
    assert (await dashboard.admin.post(f"{PATH}/remove", fields)).status == 404
    assert len(await list_secrets(dashboard.db, "other")) == 1


async def test_only_admins_come_here(dashboard: Dashboard) -> None:
    for browser in (dashboard.member, dashboard.viewer):
        assert (await browser.get(PATH)).status_code == 403
        csrf = (await browser.open("/account")).form("/sign-out").value("csrf")
        fields = [("csrf", csrf), ("name", "MODEL_KEY"), ("value", VALUE)]
        assert (await browser.post(PATH, fields)).status == 403
        assert (await browser.post(f"{PATH}/remove", fields)).status == 403
    assert await list_secrets(dashboard.db, "acme") == []


async def test_hostile_names_stay_text(dashboard: Dashboard) -> None:
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
