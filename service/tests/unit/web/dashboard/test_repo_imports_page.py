"""/repos: administrators can cancel a running import."""

import pytest

from agentjobs.repos.imports.rows import CANCELLED, ImportView, insert, list_imports
from tests.support.users import write

IMPORT = f"imp_{'a' * 26}"


@pytest.fixture
async def importing(dashboard):
    view = ImportView(
        id=IMPORT,
        full_name="acme/big",
        source="https://git.example/big",
        state="running",
        message="Receiving objects: 3 %",
        started_by="Ada",
        created_at=1,
        updated_at=1,
    )
    await dashboard.db.transact(insert, dashboard.caller.organization_id, view)
    return dashboard


async def test_an_administrator_cancels_a_running_import(importing):
    action = f"/repos/imports/{IMPORT}/cancel"
    page, stale = await importing.admin.open_twice("/repos")
    assert "Receiving objects: 3 %" in page.text
    assert not page.has_form("/dismiss")
    done = await importing.admin.send(page, action)
    assert "Cancelled connecting acme/big." in done.text
    assert not done.has_form(action)
    # The process that runs the import removes the row with the files.
    (view,) = await list_imports(importing.db, importing.caller.organization_id)
    assert (view.state, view.message) == ("failed", CANCELLED)
    assert (await importing.admin.send(stale, action)).status == 404


async def test_only_administrators_can_cancel_an_import(importing):
    for browser in (importing.member, importing.viewer):
        assert not (await browser.open("/repos")).has_form("/cancel")
    outsider = importing.outsider
    csrf = (await outsider.open("/account")).form("/sign-out").value("csrf")
    response = await outsider.post(f"/repos/imports/{IMPORT}/cancel", [("csrf", csrf)])
    assert response.status == 404
    assert len(await list_imports(importing.db, importing.caller.organization_id)) == 1


async def test_a_failed_import_can_only_be_dismissed(importing):
    await write(importing.db, "UPDATE repo_imports SET state = 'failed'")
    page = await importing.admin.open("/repos")
    assert not page.has_form("/cancel")
    assert page.has_form("/dismiss")


async def test_a_failed_import_shows_no_progress_banner(importing):
    """No banner says that the repository is being fetched."""
    page = await importing.admin.open("/repos")
    sent = {"address": "https://git.example.com/acme/tools.git"}
    page = await importing.admin.send(page, "/repos", **sent)
    assert page.path == "/repos"
    assert 'role="status">' not in page.html.partition("<h1>")[0]
    # Without sockets the import fails at once, possibly before the page is rendered.
    assert "acme/tools from https://git.example.com/acme/tools.git" in page.text
    await write(importing.db, "UPDATE repo_imports SET state = 'failed', message = 'Not found.'")
    page = await importing.admin.open("/repos")
    assert "Could not connect acme/tools from https://git.example.com/acme/tools.git. " in page.text
