"""Pull request pages: content, access and escaping."""

import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from agentjobs.organizations.organizations import create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import close_pull
from agentjobs.store.opening import open_database
from agentjobs.web.dashboard.static_files import static_url
from tests.support.git_commands import git_output
from tests.support.git_server import GitServer, serving
from tests.support.local_repository import CREDENTIAL, make_platform

PULLS = "/acme/acme/shop/pulls"
PAYLOAD = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>&amp;{{7*7}}"
)
ALLOWED_TAGS = frozenset(
    re.findall(
        r"\w+",
        "a article body br button caption code details dialog div em footer form h1 h2 h3 head"
        " header html img input kbd label li link main meta nav noscript ol option p pre script"
        " section select"
        " span strong summary table tbody td th thead time title tr ul",
    )
)


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[GitServer]:
    db = await open_database(sqlite_url, migrate=False)
    async with serving(await make_platform(db, tmp_path), tmp_path) as running:
        yield running
    await db.close()


@pytest.fixture
async def browser(server: GitServer) -> AsyncIterator[httpx.AsyncClient]:
    auth = ("anyone", await server.platform.key())
    async with httpx.AsyncClient(base_url=server.url, auth=auth) as client:
        yield client


class Page(HTMLParser):
    """Tags, attributes and text as a browser would parse them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def classes(self) -> list[str]:
        return [attributes.get("class") or "" for _, attributes in self.tags]


async def get_page(browser: httpx.AsyncClient, path: str) -> Page:
    response = await browser.get(path)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = Page(response.text)
    assert {tag for tag, _ in page.tags} <= ALLOWED_TAGS
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src"):
            assert (attributes.get(name) or "/").startswith(("/", "#"))
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    names = ("dashboard.js", "diff.js") if path.endswith("/files") else ("dashboard.js",)
    assert scripts == [{"type": "module", "src": static_url(name)} for name in names]
    images = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert images == [static_url("icon.svg")]
    return page


async def test_a_pull_request_shows_title_body_commits_and_diff(
    server: GitServer, browser: httpx.AsyncClient
) -> None:
    files = {"src/shop.py": "PRICE = 3\n\nTAX = 2\n", "new.txt": "hello\n"}
    await server.platform.open_pull("agentjobs/one", files, body="Line one\nLine two")
    page = await get_page(browser, f"{PULLS}/1")
    for text in ("Fix the price", "#1", "Line one\nLine two", "agentjobs/one"):
        assert text in page.text
    commits = await get_page(browser, f"{PULLS}/1/commits")
    assert "Ada" in commits.text
    page = await get_page(browser, f"{PULLS}/1/files")
    for text in ("src/shop.py", "new.txt", "PRICE = 1", "PRICE = 3", "hello", "+2"):
        assert text in page.text
    assert "\N{MINUS SIGN}1" in page.text
    assert "badge open" in page.classes()
    assert {"added", "removed", "context", "hunk"} <= set(page.classes())


async def test_the_list_shows_every_pull_request_with_its_state(
    server: GitServer, browser: httpx.AsyncClient
) -> None:
    assert "No pull requests yet" in (await get_page(browser, PULLS)).text
    platform = server.platform
    for number, branch in enumerate(("one", "two", "three", "four"), 1):
        files = {f"{branch}.txt": branch}
        await platform.open_pull(f"agentjobs/{branch}", files, draft=number == 4, title=branch)
    await merge_pull(platform.db, platform.settings, "acme", "acme/shop", 1)
    await close_pull(platform.db, "acme", "acme/shop", 2)
    page = await get_page(browser, PULLS)
    states = [name for name in page.classes() if name.startswith("badge")]
    assert states == ["badge draft", "badge open", "badge closed", "badge merged"]
    links = [attributes.get("href") or "" for tag, attributes in page.tags if tag == "a"]
    listed = [link for link in links if link.startswith(f"{PULLS}/")]
    assert listed == [f"{PULLS}/{number}" for number in (4, 3, 2, 1)]
    for number in (1, 2, 4):
        assert f"#{number}" in (await get_page(browser, f"{PULLS}/{number}")).text


async def test_untrusted_text_is_escaped(server: GitServer, browser: httpx.AsyncClient) -> None:
    platform = server.platform
    branch = "agentjobs/<script>alert(4)</script>"
    platform.propose(
        branch,
        {
            f"dir/{PAYLOAD.replace('/', '')}.txt": f"{PAYLOAD}\n",
            "README.md": f"{PAYLOAD}\n",
            "</td></tr></table><script>": "x\n",
        },
        message=f"{PAYLOAD}\n\n{PAYLOAD}",
    )
    author = "x\"' onload=alert(6) <\"'@example.com>"
    git_output("commit", "-q", "--amend", "--no-edit", f"--author={author}", cwd=platform.source)
    git_output("push", "-q", "--force", str(platform.git_dir), "HEAD", cwd=platform.source)
    commit = platform.head(branch)
    request = platform.request(branch, commit, title=PAYLOAD, body=f"{PAYLOAD}\n{PAYLOAD}")
    await platform.adapter.open_pull_request(platform.repo, CREDENTIAL, request)
    pages = [await get_page(browser, f"{PULLS}/1{tab}") for tab in ("", "/commits", "/files")]
    text = "".join(page.text for page in pages)
    assert text.count("<script>alert(1)</script>") >= 8
    assert "{{7*7}}" in text
    assert "\"' onload=alert(6)" in text
    assert "<script>alert(1)</script>" in (await get_page(browser, PULLS)).text


async def test_deceptive_characters_are_shown_by_code_point(
    server: GitServer, browser: httpx.AsyncClient
) -> None:
    files = {"a.py": "if admin:\u202e # check\u2066\n", "b\u200b.py": "x\x1b[31m\x00\n"[:-2]}
    await server.platform.open_pull("agentjobs/one", files, title="sure\u202etitle")
    page = await get_page(browser, f"{PULLS}/1/files")
    for text in ("if admin:⟦U+202E⟧ # check⟦U+2066⟧", "b⟦U+200B⟧.py", "sure⟦U+202E⟧title"):
        assert text in page.text
    assert not {"\u202e", "\u2066", "\u200b", "\x1b"} & set(page.text)


async def test_unusual_files_are_shown(server: GitServer, browser: httpx.AsyncClient) -> None:
    source = server.platform.source
    files = {"bin": b"\0\1\2", "latin": b"caf\xe9\n", "crlf": b"a\r\nb\r\n", "empty": b""}
    (source / "link").symlink_to("/etc/passwd")
    await server.platform.open_pull("agentjobs/one", files)
    future = "--date=@99999999999999 +0000"
    git_output("commit", "-q", "--amend", "--no-edit", future, cwd=source)
    git_output("push", "-q", "--force", str(server.platform.git_dir), "HEAD", cwd=source)
    assert "9999-12-31" in (await get_page(browser, f"{PULLS}/1/commits")).text
    page = await get_page(browser, f"{PULLS}/1/files")
    for text in (
        "Binary or large file not shown",
        "caf\N{REPLACEMENT CHARACTER}",
        "/etc/passwd",
        "empty",
    ):
        assert text in page.text


async def test_a_huge_change_is_loaded_file_by_file(
    server: GitServer, browser: httpx.AsyncClient
) -> None:
    files = {f"{number:03}.txt": "some line of text\n" * 5_000 for number in range(60)}
    await server.platform.open_pull("agentjobs/one", files)
    response = await browser.get(f"{PULLS}/1/files", timeout=60)
    assert response.status_code == 200
    assert response.text.count("data-lazy=") == 60
    assert "+5000" in response.text
    assert len(response.content) < 1_000_000


async def test_a_pull_request_without_changes_says_so(
    server: GitServer, browser: httpx.AsyncClient
) -> None:
    head = server.platform.head()
    request = server.platform.request("main", head)
    await server.platform.adapter.open_pull_request(server.platform.repo, CREDENTIAL, request)
    assert "No files changed" in (await get_page(browser, f"{PULLS}/1/files")).text
    assert "No commits" in (await get_page(browser, f"{PULLS}/1/commits")).text


async def test_a_missing_pull_request_is_not_found(browser: httpx.AsyncClient) -> None:
    numbers = ("1", "0", "-1", "x", "9" * 5_000, "²", "1/")
    places = ("acme/acme/none", "nobody/acme/shop")
    for path in (
        *(f"{PULLS}/{number}" for number in numbers),
        *(f"/{place}/pulls{rest}" for place in places for rest in ("", "/1")),
    ):
        response = await browser.get(path)
        assert response.status_code == 404
        assert response.json()["error"]["code"].endswith("not_found")


async def test_another_organization_gets_not_found(server: GitServer) -> None:
    await server.platform.open_pull("agentjobs/one", {"a": "1"})
    plans = Plans(server.platform.settings.plans)
    await create_organization(server.platform.db, plans, "other", "pro")
    key = await server.platform.key("other")
    async with httpx.AsyncClient(base_url=server.url, auth=("me", key)) as browser:
        responses = [await browser.get(f"{PULLS}{rest}") for rest in ("", "/1", "/2")]
        unknown = await browser.get("/nobody/a/b/pulls/1")
    errors = {response.json()["error"]["message"] for response in (*responses, unknown)}
    assert {response.status_code for response in responses} == {404}
    assert len(errors) == 1


async def test_without_a_key_basic_authentication_is_requested(server: GitServer) -> None:
    async with httpx.AsyncClient(base_url=server.url) as browser:
        for path in (PULLS, f"{PULLS}/1"):
            response = await browser.get(path)
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Basic realm=")
            assert response.json()["error"]["code"] == "unauthorized"


async def test_a_job_credential_cannot_read_the_pages(server: GitServer) -> None:
    credential = await server.platform.job_credential("agentjobs/one")
    async with httpx.AsyncClient(base_url=server.url, auth=("job", credential)) as browser:
        assert (await browser.get(PULLS)).status_code == 401


async def test_a_bearer_token_can_read_the_page(server: GitServer) -> None:
    await server.platform.open_pull("agentjobs/one", {"a": "1"})
    headers = {"Authorization": f"Bearer {await server.platform.key()}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as browser:
        assert (await browser.get(f"{PULLS}/1")).status_code == 200


async def test_stylesheet_and_icon_are_public(server: GitServer) -> None:
    async with httpx.AsyncClient(base_url=server.url) as browser:
        style = await browser.get("/static/dashboard.css")
        assert style.headers["content-type"].startswith("text/css")
        assert "url(" not in style.text
        assert "prefers-color-scheme: dark" in style.text
        icon = await browser.get("/static/icon.svg")
        assert icon.headers["content-type"] == "image/svg+xml"
        for missing in ("/static/none", "/static/../pages.py", "/static/%2e%2e/pages.py"):
            assert (await browser.get(missing)).status_code == 404


async def test_the_pages_refuse_post(browser: httpx.AsyncClient) -> None:
    response = await browser.post(f"{PULLS}/1")
    assert response.status_code == 405
    assert "GET" in response.headers["allow"]


async def test_a_missing_repository_directory_is_reported_without_its_path(
    server: GitServer, browser: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    await server.platform.open_pull("agentjobs/one", {"a": "1"})
    git_dir = server.platform.git_dir
    git_dir.rename(git_dir.with_name("moved"))
    response = await browser.get(f"{PULLS}/1")
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "repo_unavailable"
    assert str(git_dir.parent) not in response.text
    assert str(git_dir.parent) in caplog.text
