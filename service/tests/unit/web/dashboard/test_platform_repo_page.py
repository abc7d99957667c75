"""Repositories, pull requests and jobs of external platforms, and names of several parts."""

import zlib
from shutil import rmtree

import msgspec
import pytest

from agentjobs.jobs.review import mark_ready
from agentjobs.local_git.repositories import path as git_path
from agentjobs.pulls.comments import add_comment
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import close_pull
from agentjobs.web.dashboard.text_filters import web_address
from agentjobs_runtime.problems import Problem
from service.tests.unit.web.dashboard.browser import PAYLOAD
from service.tests.unit.web.dashboard.event_streams import listen
from service.tests.unit.web.dashboard.page_safety import safety_faults
from tests.support.jobs import insert_repo
from tests.support.repo_rows import write_repos
from tests.support.users import write

NAME = "group/sub/shop"
THERE = f"https://git.example.org/{NAME}"
PULLS = f"/acme/{NAME}/pulls"
MISSING = "f" * 40


@pytest.fixture
async def platform_dashboard(sample_dashboard):
    """acme's shop and its pull requests are on a platform, renamed after its jobs ran."""
    samples = sample_dashboard.samples["acme"]
    await write_repos(
        sample_dashboard.db,
        "platform = 'gitea', full_name = :name, connection_id = :connection, external_id = '9',"
        " synced_at = 1750000000000",
        "r.id = :id",
        id=samples.repo_id,
        name=NAME,
        connection=samples.connection,
    )
    await write(
        sample_dashboard.db,
        "UPDATE pulls SET url = :url || number, body = '' WHERE repo_id = :id",
        id=samples.repo_id,
        url=f"{THERE}/pulls/",
    )
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET pr_url = :url || pr_number WHERE pr_url IS NOT NULL AND repo_id = :id",
        id=samples.repo_id,
        url=f"{THERE}/pulls/",
    )
    return sample_dashboard


@pytest.mark.parametrize(
    ("url", "is_link"),
    [
        ("https://git.example.org/a#b", True),
        ("http://git.example.org", True),
        ("javascript:alert(1)", False),
        (" https://git.example.org", False),
        ("https://git.example.org/a b", False),
        ("data:text/html,x", False),
        ("//git.example.org", False),
        (None, False),
    ],
)
def test_only_http_urls_become_external_links(url, is_link):
    assert web_address(url) == (url if is_link else "")


@pytest.mark.parametrize(
    "name",
    [
        *("acme/.github", "group/sub/team/project", "group/stream", "group/sub/graph"),
        "a/b/pulls",
        "a/b/settings",
        "a/b/environment",
    ],
)
async def test_every_page_accepts_repository_names_of_several_parts(dashboard, name):
    await dashboard.db.transact(insert_repo, dashboard.caller.organization_id, name, "ready")
    viewer = dashboard.viewer
    for end in ("", "/dependencies", "/graph", "/settings"):
        page = await viewer.open(f"/repos/{name}{end}")
        assert (page.status, f" {name} " in page.text) == (200, True), page.path
        assert f"/repos/{name}/graph" in page.links
    assert (await listen(dashboard.app, viewer, f"/repos/{name}/stream", events=1)).status == 200
    pulls = await viewer.open(f"/acme/{name}/pulls")
    assert pulls.status == 200
    assert f"/repos/{name}" in pulls.links
    for end in ("", "/file", "/files", "/commits"):
        assert (await viewer.open(f"/acme/{name}/pulls/7{end}")).status == 404
    assert (await viewer.open(f"/repos/{name}/nowhere")).status == 404
    assert f"/repos/{name}" in (await viewer.open("/repos")).links
    page = await dashboard.admin.open(f"/repos/{name}/settings")
    unprotected = await dashboard.admin.send(page, f"/{name}/lift", pattern="CODEOWNERS")
    assert "Agents can now change this path." in unprotected.text
    disconnected = await dashboard.admin.send(unprotected, f"/{name}/disconnect")
    assert f"{name} was disconnected" in disconnected.text
    assert (await viewer.open(f"/repos/{name}")).status == 404


async def test_a_repository_shows_its_platform_and_sync_state(platform_dashboard):
    repo, connection = f"/repos/{NAME}", platform_dashboard.samples["acme"].connection
    assert THERE in (await platform_dashboard.viewer.open(repo)).links
    path = f"{repo}/settings"
    page = await platform_dashboard.member.open(path)
    assert THERE in page.links
    assert f"/settings/platforms/{connection}" in page.links
    assert "up to date" in page.text
    assert "Clone it with any user name" not in page.text
    # The file is read from the mirror.
    assert "make check" in page.text
    viewer = await platform_dashboard.viewer.open(path)
    assert f"/settings/platforms/{connection}" not in viewer.links
    await write_repos(
        platform_dashboard.db,
        "sync_error = :error, sync_failures = 2, sync_due_at = 1760000000000",
        error=f"Not there any more{PAYLOAD}",
    )
    page = await platform_dashboard.viewer.open(path)
    assert f"Not there any more{PAYLOAD}" in page.text
    assert "Next retry 2025-10-09" in page.text
    assert safety_faults(page) == []
    stream = await listen(
        platform_dashboard.app, platform_dashboard.viewer, f"{path}/stream", events=1
    )
    part = stream.parts()["repos/sync"]
    assert f"Not there any more{PAYLOAD}" in part.text
    assert safety_faults(part) == []
    overview = await platform_dashboard.viewer.open(repo)
    assert f"platform error Not there any more{PAYLOAD}" in overview.text
    assert safety_faults(overview) == []
    listed = await platform_dashboard.admin.open(f"/settings/platforms/{connection}")
    assert f"Not there any more{PAYLOAD}" in listed.text


async def test_a_repository_that_was_never_fetched_says_so(platform_dashboard):
    repo_id = platform_dashboard.samples["acme"].repo_id
    rmtree(git_path(platform_dashboard.context.settings.repositories_path, repo_id))
    await write_repos(platform_dashboard.db, "head_commit = '', synced_at = NULL")
    page = await platform_dashboard.viewer.open(f"/repos/{NAME}/settings")
    assert page.status == 200
    assert "not fetched yet" in page.text
    assert "The repository has not been fetched yet." in page.text


async def test_an_invalid_platform_url_is_not_a_link(platform_dashboard):
    await write(
        platform_dashboard.db,
        "UPDATE platform_connections SET url = :url",
        url="javascript:alert(1)",
    )
    await write(
        platform_dashboard.db, "UPDATE pulls SET url = :url", url=f"javascript:alert(2){PAYLOAD}"
    )
    await write(platform_dashboard.db, "UPDATE jobs SET pr_url = :url", url="javascript:alert(3)")
    finished = platform_dashboard.samples["acme"].finished_job
    paths = (f"/repos/{NAME}", PULLS, f"{PULLS}/1", "/jobs", f"/jobs/{finished}")
    for path in (*paths, f"/jobs/{finished}/changes", "/pulls", "/vulnerabilities"):
        page = await platform_dashboard.admin.open(path)
        assert page.status == 200
        assert safety_faults(page) == [], path


async def test_a_platform_pull_request_links_to_the_platform_and_is_read_only(platform_dashboard):
    member, path = platform_dashboard.member, f"{PULLS}/1"
    for listed in ("/pulls", PULLS):
        page = await member.open(listed)
        assert {path, f"{THERE}/pulls/1"} <= set(page.links)
    page = await member.open(path)
    assert f"{THERE}/pulls/1" in page.links
    assert f"/jobs/{platform_dashboard.samples['acme'].finished_job}" in page.links
    assert "View on the platform" in page.text
    for end in ("/merge", "/close", "/ready", "/comments"):
        assert not page.has_form(end)
        csrf = page.form("/sign-out").value("csrf")
        error_page = await member.post(f"{path}{end}", [("csrf", csrf), ("body", "Well done")])
        assert error_page.status == 409
        assert f"can only be changed there: {THERE}/pulls/1" in error_page.text
    file = await member.open(f"{path}/file?path=x&base={MISSING}&head={MISSING}")
    assert file.status == 404
    row = await platform_dashboard.db.fetch_one("SELECT state, draft FROM pulls WHERE number = 1")
    assert row["state"] == "open"


async def test_a_platform_pull_request_shows_the_stored_changes_of_its_jobs(platform_dashboard):
    member, path = platform_dashboard.member, f"{PULLS}/1/files"
    finished = platform_dashboard.samples["acme"].finished_job
    repo_id = platform_dashboard.samples["acme"].repo_id
    rmtree(git_path(platform_dashboard.context.settings.repositories_path, repo_id))
    page = await member.open(path)
    assert (page.status, "These commits are on the platform" in page.text) == (200, True)
    diff = b"diff --git a/x/new.py b/x/new.py\nnew file mode 100644\nindex 00..ab1\n"
    diff += b"--- /dev/null\n+++ b/x/new.py\n@@ -0,0 +1 @@\n+stored = 1\n"
    await write(
        platform_dashboard.db,
        "INSERT INTO job_diffs (job_id, content, is_truncated, created_at)"
        " VALUES (:job, :content, :cut, 1)",
        job=finished,
        content=zlib.compress(diff),
        cut=False,
    )
    page = await member.open(f"{path}?view=split&job={finished}")
    for text in ("stored = 1", "x/new.py", "1 file changed", "View on the platform"):
        assert text in page.text, text
    assert f"{path}?job={finished}&view=unified" in page.links
    assert "aria-pressed" not in page.html
    assert "stored = 1" in (await member.open(f"{path}?job=nonsense")).text
    await write(platform_dashboard.db, "UPDATE jobs SET pr_number = NULL")
    assert (await member.open(path)).status == 404


async def test_operations_on_a_platform_pull_request_have_one_error_code(platform_dashboard):
    db, settings = platform_dashboard.db, platform_dashboard.context.settings
    for error_page in (
        merge_pull(db, settings, "acme", NAME, 1),
        close_pull(db, "acme", NAME, 1),
        mark_ready(db, "acme", NAME, 2),
        add_comment(db, "acme", NAME, 1, "Well done"),
    ):
        with pytest.raises(Problem, match="hosted on its platform") as raised:
            await error_page
        assert raised.value.code == "pull_elsewhere"


async def test_a_job_shows_its_ticket_and_the_state_of_its_pull_request(platform_dashboard):
    job = platform_dashboard.samples["acme"].finished_job
    ticket = {
        "title": f"The price is wrong{PAYLOAD}",
        "url": "https://jira.example.com/browse/SHOP-1",
        "labels": [f"bug{PAYLOAD}"],
    }
    text = msgspec.json.encode(ticket).decode()
    await write(
        platform_dashboard.db, "UPDATE jobs SET ticket = :text WHERE id = :id", id=job, text=text
    )
    await write(
        platform_dashboard.db,
        "UPDATE jobs SET created_by_name = :who WHERE id = :id",
        id=job,
        who="@ada",
    )
    page = await platform_dashboard.member.open(f"/jobs/{job}")
    assert {ticket["url"], f"{THERE}/pulls/1", f"/repos/{NAME}"} <= set(page.links)
    for message in (f"SHOP-1 : {ticket['title']}", ticket["labels"][0], "by @ada"):
        assert message in page.text
    assert "#1 open" in page.text
    assert page.has_form("/follow-up")
    assert safety_faults(page) == []
    await write(platform_dashboard.db, "UPDATE pulls SET state = 'merged' WHERE number = 1")
    page = await platform_dashboard.member.open(f"/jobs/{job}")
    assert "#1 merged" in page.text
    assert "The pull request is merged, so you cannot start a follow-up." in page.text


async def test_a_platform_pull_request_accepts_follow_ups(platform_dashboard):
    job = platform_dashboard.samples["acme"].finished_job
    await write(
        platform_dashboard.db, "UPDATE jobs SET repo = :name WHERE id = :id", id=job, name=NAME
    )
    page = await platform_dashboard.member.open(f"/jobs/{job}")
    page = await platform_dashboard.member.send(page, "/follow-up", prompt="And the tax.")
    assert "follow-up on the same pull request" in page.text
    assert f"/jobs/{job}" in page.links


async def test_changes_missing_from_the_mirror_link_to_the_platform(platform_dashboard):
    job = platform_dashboard.samples["acme"].finished_job
    path = f"/jobs/{job}/changes"
    page = await platform_dashboard.viewer.open(path)
    assert "src/shop.py" in page.text
    await write(
        platform_dashboard.db, "UPDATE jobs SET head_commit = :c WHERE id = :id", id=job, c=MISSING
    )
    page = await platform_dashboard.viewer.open(path)
    assert page.status == 200
    assert "These commits are on the platform" in page.text
    assert f"{THERE}/pulls/1" in page.links
    part = await platform_dashboard.viewer.get(path, headers={"X-Part": "1"})
    assert "<html" not in part.text
    assert "These commits are on the platform" in part.text
    file_page = await platform_dashboard.viewer.open(
        f"{path}/file?path=x&base={MISSING}&head={MISSING}"
    )
    assert file_page.status == 404
    assert "View the changes of this job on the platform" in file_page.text
    rmtree(
        git_path(
            platform_dashboard.context.settings.repositories_path,
            platform_dashboard.samples["acme"].repo_id,
        )
    )
    assert "These commits are on the platform" in (await platform_dashboard.viewer.open(path)).text
