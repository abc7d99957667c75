"""/repos/{full_name}/environment: the definition in the service, and trusted branches."""

import pytest

from agentjobs.environments.repo_settings import RepoSettings, load_repo_settings
from agentjobs.repos.queries import find_repo
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from service.tests.unit.web.dashboard.browser import PAYLOAD
from service.tests.unit.web.dashboard.conftest import Dashboard

PATH = "/repos/acme/shop/environment"
TEXT = '[environment]\nsetup = """\nnpm ci\nmake tools"""\n'


async def settings_of(dashboard: Dashboard) -> RepoSettings:
    repo = await find_repo(dashboard.db, dashboard.caller.organization_id, "acme/shop")
    return await load_repo_settings(dashboard.db, repo.id)


async def test_an_admin_sets_and_removes_the_definition(dashboard: Dashboard) -> None:
    page = await dashboard.admin.open(PATH)
    assert page.form(PATH).value("definition") == ""
    assert not page.has_form(f"{PATH}/clear")
    page = await dashboard.admin.send(page, PATH, definition=TEXT.replace("\n", "\r\n"))
    assert "Saved." in page.text
    stored = await settings_of(dashboard)
    assert stored.definition == EnvironmentDefinition(setup="npm ci\nmake tools")
    assert page.form(PATH).value("definition") == TEXT
    page = await dashboard.admin.send(page, f"{PATH}/clear")
    assert "Removed." in page.text
    assert await settings_of(dashboard) == RepoSettings()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "The definition has no table [environment]"),
        ("[environment]\nimage = 1", "The definition, line 2: image: Expected `str`"),
        (f"[environment]\n{PAYLOAD}", "The definition: is not valid TOML"),
        ("[environment]\nsetup = '" + "x" * 70_000, "is larger than 64 KiB"),
    ],
)
async def test_an_invalid_definition_stays_in_the_form(
    dashboard: Dashboard, text: str, reason: str
) -> None:
    page = await dashboard.admin.send(await dashboard.admin.open(PATH), PATH, definition=text)
    assert page.status == 400
    assert reason in page.text
    assert page.is_safe()
    assert page.form(PATH).value("definition") == text
    assert await settings_of(dashboard) == RepoSettings()


async def test_unknown_keys_are_named_once_saved(dashboard: Dashboard) -> None:
    page = await dashboard.admin.open(PATH)
    page = await dashboard.admin.send(page, PATH, definition="[environment]\nimgae = 'a'")
    assert "Saved. The definition, line 2: imgae is not a key" in page.text


async def test_an_admin_sets_trusted_branches(dashboard: Dashboard) -> None:
    action = f"{PATH}/trusted-branches"
    page = await dashboard.admin.open(PATH)
    page = await dashboard.admin.send(page, action, branches="release/2\r\ndevelop ")
    assert (await settings_of(dashboard)).trusted_branches == ("develop", "release/2")
    assert page.form(action).value("branches") == "develop\nrelease/2"
    page = await dashboard.admin.send(page, action, branches="a..b")
    assert (page.status, page.form(action).value("branches")) == (400, "a..b")
    page = await dashboard.admin.send(page, action, branches="")
    assert await settings_of(dashboard) == RepoSettings(generation=1)


async def test_members_see_the_definition_and_no_forms(dashboard: Dashboard) -> None:
    await dashboard.admin.send(await dashboard.admin.open(PATH), PATH, definition=TEXT)
    page = await dashboard.viewer.open(PATH)
    assert "make tools" in page.text
    assert not page.has_form(PATH)
    csrf = (await dashboard.viewer.open("/account")).form("/sign-out").value("csrf")
    fields = [("csrf", csrf), ("definition", "[environment]")]
    for path in (PATH, f"{PATH}/clear", f"{PATH}/trusted-branches"):
        assert (await dashboard.viewer.post(path, fields)).status == 403
    assert (await settings_of(dashboard)).definition is not None
