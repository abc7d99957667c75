"""/repos and /repos/{owner}/{name}: connected repositories and the actions of admins."""

import asyncio

import pytest

from agentjobs.repos.scheduling import set_scheduling
from service.tests.unit.web.dashboard.event_streams import listen
from tests.support.jobs import insert_repo
from tests.support.repo_rows import write_repos
from tests.support.users import write

HERE = "/repos/acme/shop"
SETTINGS = f"{HERE}/settings"


async def test_the_list_shows_repositories_and_failed_imports(sample_dashboard):
    page = await sample_dashboard.viewer.open("/repos")
    assert HERE in page.links
    assert "Could not connect acme/elsewhere from https://git.example/elsewhere." in page.text
    assert "other/shop" not in page.html
    assert not page.has_form("/repos")
    assert not page.has_form("/dismiss")


async def test_the_empty_list_explains_how_to_connect_a_repository(dashboard):
    await write(dashboard.db, "UPDATE repos SET disconnected_at = 1")
    page = await dashboard.admin.open("/repos")
    assert {"#add", "/settings/platforms#add"} <= set(page.links)
    assert "An admin can connect one." in (await dashboard.member.open("/repos")).text


async def test_the_list_shows_the_progress_of_an_index(dashboard):
    await write_repos(
        dashboard.db,
        "index_status = 'indexing', index_due_at = 1, index_total = 9",
    )
    page = await dashboard.viewer.open("/repos")
    assert "indexing" in page.text
    assert any(tag == "progress" and attributes["max"] == "9" for tag, attributes in page.tags)
    page = await dashboard.viewer.open(HERE)
    assert "accepts jobs when the index is ready" in page.text
    assert "0 of 9 files" in page.text


async def test_the_list_shows_what_happens_in_a_repository(sample_dashboard):
    head = "(SELECT head_commit FROM repos WHERE id = repo_id)"
    await write_repos(sample_dashboard.db, f"indexed_commit = {head}")
    page = await sample_dashboard.viewer.open("/repos")
    job = await sample_dashboard.db.fetch_one(
        "SELECT MAX(id) AS id FROM jobs WHERE repo = 'acme/shop'"
    )
    assert f"/jobs/{job['id']}" in page.links
    assert "/acme/acme/shop/pulls?state=open" in page.links
    assert "/vulnerabilities?repo=acme/shop" in page.links


async def test_the_list_is_searched_filtered_and_paged(dashboard):
    for number in range(60):
        owner = dashboard.caller.organization_id
        await dashboard.db.transact(insert_repo, owner, f"acme/repo-{number:02}", "ready")
    await write(
        dashboard.db, "UPDATE repos SET platform = 'gitlab' WHERE full_name = 'acme/repo-07'"
    )
    viewer = dashboard.viewer

    async def listed(address):
        links = (await viewer.open(address)).links
        return [link.removeprefix("/repos/acme/") for link in links if "/repos/acme/" in link]

    assert await listed("/repos?q=REPO-1&order=name") == [f"repo-1{number}" for number in range(10)]
    assert await listed("/repos?platform=gitlab&state=ready") == ["repo-07"]
    assert await listed("/repos?platform=other&state=other&order=other&page=0&q=shop") == ["shop"]
    first = await viewer.open("/repos?order=name")
    assert "/repos?order=name&page=2" in first.links
    rest = await listed("/repos?order=name&page=2")
    assert rest == [*(f"repo-{number}" for number in range(50, 60)), "shop"]
    for address, text in {
        "/repos?q=nowhere": "No repositories match these filters",
        "/repos?page=9": "No more repositories",
    }.items():
        page = await viewer.open(address)
        assert text in page.text
        assert "/repos" in page.links


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ("index_status = 'indexing'", "indexing waiting to start"),
        ("index_status = 'indexing', index_error = 'Too large.'", "index failed Too large."),
        ("index_error = 'Too large.'", "index outdated Too large."),
        ("index_due_at = 1", "ready indexing the latest push"),
        ("sync_error = 'Refused.'", "platform error Refused."),
    ],
)
async def test_the_list_says_what_is_wrong_with_a_repository(dashboard, assignment, text):
    await write_repos(dashboard.db, assignment)
    assert text in (await dashboard.viewer.open("/repos")).text


@pytest.mark.parametrize(
    ("address", "name", "status", "text"),
    [
        ("", "", 422, "Enter the https URL"),
        ("http://git.example/a/b.git", "", 422, "must start with https://"),
        ("/etc", "", 422, "must start with https://"),
        ("file:///etc", "", 422, "must start with https://"),
        (
            "https://ada:s3cret@git.example/a/b.git",
            "",
            422,
            "must not contain a user name or password",
        ),
        ("https://git.example/", "", 422, "no repository path"),
        ("https://git.example/a/b.git?x=1", "", 422, "must not contain ?"),
        ("https://git.example/a/b.git", "no name", 400, "name"),
        ("https://git.example/a/b.git", "acme/shop", 409, "is already connected"),
    ],
)
async def test_a_rejected_connection_keeps_the_entered_values(
    dashboard, address, name, status, text
):
    page = await dashboard.admin.open("/repos")
    page = await dashboard.admin.send(
        page, "/repos", address=address, name=name, user="ada", token="t0ken-value"
    )
    assert page.status == status
    assert text in page.text
    form = page.form("/repos")
    assert (form.value("address"), form.value("name")) == (address, name)
    assert form.value("user") == "ada"
    assert "t0ken-value" not in page.html


async def test_a_failed_import_is_dismissed_once(sample_dashboard):
    page, stale = await sample_dashboard.admin.open_twice("/repos")
    done = await sample_dashboard.admin.send(page, "/dismiss")
    assert "acme/elsewhere" not in done.text
    repeated = await sample_dashboard.admin.send(stale, "/dismiss")
    assert repeated.status == 404


async def test_a_repository_shows_its_jobs_pulls_and_vulnerabilities(sample_dashboard):
    page = await sample_dashboard.member.open(HERE)
    for text in ("the disk is full", "Fix the price", "Open pull requests"):
        assert text in page.text, text
    assert "http://127.0.0.1:8080/git/acme/acme/shop.git" in page.text
    assert "/jobs/new?repo=acme/shop" in page.links
    assert f"/jobs/{sample_dashboard.samples['acme'].finished_job}" in page.links
    assert "/acme/acme/shop/pulls/1" in page.links
    assert any(link.startswith("/vulnerabilities?repo=acme/shop&q=") for link in page.links)


async def test_a_job_is_started_from_the_page_of_its_repository(sample_dashboard):
    member = sample_dashboard.member
    page = await member.open(HERE)
    form = page.form("/jobs")
    assert (form.value("repo"), form.value("agent")) == ("acme/shop", "fixer")
    page = await member.send(page, "/jobs", prompt="Round the prices")
    assert page.path.startswith("/jobs/job_")
    assert "Round the prices" in page.text
    assert not (await sample_dashboard.viewer.open(HERE)).has_form("/jobs")
    await write_repos(sample_dashboard.db, "index_status = 'indexing'")
    assert not (await member.open(HERE)).has_form("/jobs")


async def test_the_settings_of_a_repository_have_their_own_page(sample_dashboard):
    page = await sample_dashboard.member.open(SETTINGS)
    for text in ("warnings", "make check", "CODEOWNERS", ".github/workflows", "Any worker runs"):
        assert text in page.text, text
    for action in ("/lift", "/protect", "/disconnect", "/auto-trigger"):
        assert not page.has_form(action)
    assert SETTINGS in (await sample_dashboard.viewer.open(HERE)).links


async def test_a_repository_without_its_files_still_shows_stored_details(dashboard):
    for address in (HERE, SETTINGS):
        page = await dashboard.viewer.open(address)
        assert page.status == 200
        assert str(dashboard.context.settings.data_path) not in page.html


async def test_a_repository_shows_the_tags_and_the_limit_that_the_operator_set(dashboard):
    assert "set by the operator" not in (await dashboard.viewer.open(SETTINGS)).text
    changes = {"tags": "gpu,large", "max_concurrent_jobs": "3"}
    await set_scheduling(dashboard.db, "acme", "acme/shop", **changes)
    text = (await dashboard.viewer.open(SETTINGS)).text
    assert "Worker tags gpu large set by the operator" in text
    assert "Concurrent jobs 3 set by the operator" in text


async def test_a_path_is_unprotected_and_protected_again(sample_dashboard):
    admin = sample_dashboard.admin
    page = await admin.send(await admin.open(SETTINGS), f"{HERE}/lift", pattern="renovate.json")
    assert "Agents can now change this path." in page.text
    assert "renovate.json" in page.text
    fields = [("csrf", page.form(f"{HERE}/lift").value("csrf")), ("pattern", "renovate.json")]
    page = await admin.post(f"{HERE}/protect", fields)
    assert "The path is protected again." in page.text
    assert "renovate.json" not in page.text
    fields[0] = ("csrf", page.form(f"{HERE}/lift").value("csrf"))
    page = await admin.post(f"{HERE}/protect", fields)
    assert page.status == 400
    assert "is not an unprotected path" in page.text


@pytest.mark.parametrize("pattern", ["", "/", "../x"])
async def test_a_rejected_pattern_is_kept_in_the_form(sample_dashboard, pattern):
    page = await sample_dashboard.admin.open(SETTINGS)
    page = await sample_dashboard.admin.send(page, f"{HERE}/lift", pattern=pattern)
    assert page.status == 400
    assert page.form(f"{HERE}/lift").value("pattern") == pattern


async def test_disconnecting_a_repository_keeps_its_jobs(sample_dashboard):
    admin = sample_dashboard.admin
    page = await admin.send(await admin.open(SETTINGS), f"{HERE}/disconnect")
    assert page.path == "/repos"
    assert "acme/shop was disconnected." in page.text
    assert (await admin.open(HERE)).status == 404
    job = await admin.open(f"/jobs/{sample_dashboard.samples['acme'].queued_job}")
    assert "The repository was disconnected before the job could start." in job.text
    assert (await admin.open("/acme/acme/shop/pulls")).status == 404


async def test_open_pages_show_a_new_repository(dashboard):
    async def connect(tx):
        await insert_repo(tx, dashboard.caller.organization_id, "acme/new", "ready")
        tx.announce("index")

    async def connect_once_it_listens():
        await first_event.wait()
        await dashboard.db.transact(connect)

    first_event = asyncio.Event()
    connecting = asyncio.create_task(connect_once_it_listens())
    stream = await listen(
        dashboard.app, dashboard.viewer, "/repos/stream", events=2, on_event=first_event.set
    )
    await connecting
    assert "/repos/acme/new" in stream.parts()["repos/rows"].links


async def test_a_repository_names_its_platform_as_the_list_does(sample_dashboard):
    for platform, name in (("local", "Hosted here"), ("gitlab", "GitLab")):
        sql = "UPDATE repos SET platform = :platform WHERE full_name = 'acme/shop'"
        await write(sample_dashboard.db, sql, platform=platform)
        for path in ("/repos", "/repos/acme/shop"):
            assert name in (await sample_dashboard.viewer.open(path)).text, path
