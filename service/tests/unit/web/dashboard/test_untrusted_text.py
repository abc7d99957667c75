"""Untrusted text on every page and in every part of a live page is shown as plain text.

It comes from agents, git histories, webhook receivers, workers and users.
"""

import json
from urllib.parse import quote, urlencode

import pytest

from agentjobs.organizations.audit import Actor, Entry
from agentjobs.organizations.audit import write as write_entry
from agentjobs.organizations.memberships import ROLES, allows
from agentjobs.web.dashboard.text.visible_text import visible
from service.tests.unit.web.dashboard.addresses import (
    GETS,
    POSTS,
    PUBLIC_ROUTES,
    address_of,
    csrf_of,
    describe_route,
    fields_of,
)
from service.tests.unit.web.dashboard.browser import ADDRESS, PAYLOAD, Page
from service.tests.unit.web.dashboard.conftest import build_sample_template, open_sample_dashboard
from service.tests.unit.web.dashboard.event_streams import listen
from service.tests.unit.web.dashboard.page_safety import collapse_whitespace, safety_faults
from service.tests.unit.web.dashboard.platform_data import use_jira_double
from tests.support.users import make_passwords_cheap, write

DECEIVING = "\u202e\u2066\u200b"
CONTROL = "\x01\x02\x08\x0c\x0e\x1f\x85\x9b"
TERMINAL = "\x1b[31m\x1b]8;;javascript:alert(3)\x07\x1b\\\x1b[2J"
SOUP = (
    f"{PAYLOAD}{{{{7*7}}}}${{7*7}}</pre></textarea></title>"
    f"[link](javascript:alert(4))<javascript:alert(5)>&lt;b&gt;{DECEIVING}{CONTROL}{TERMINAL}"
)
# The characters that git allows in a branch name.
BRANCH = f'"><script>alert(1)</script><img/src=x>{{{{7x7}}}}{DECEIVING}'
LONG = "w" * 100_000

# The texts that each page must show, by the label before the payload.
SHOWN = {
    "/": ["Fix the price"],
    "/jobs": ["Fix the price", "SHOP-1", "Ada"],
    "/jobs/{failed_job}": [
        *(
            "Fix the price",
            "Please do\\",
            "depth\\",
            "It gave up.",
            "You are an agent.",
            "make check",
        ),
        *("1 failed", "compiling", "in red", "SHOP-2", "agentjobs/failed", "Ada"),
        *("requests", "2.30.0", "requirements.txt", "2.31.0", "GHSA-odd"),
    ],
    "/jobs/{failed_job}?view=steps": [
        *("large", "prices.py", "pytest", "1 passed", "src/shop.py", "+PRICE = 3"),
        *("The price is right.", "Grep PRICE", "2 files", "sleep"),
    ],
    "/jobs/{finished_job}/changes": ["dear", "hello", "notes"],
    "/repos": ["fatal: not found", "https://git.example/elsewhere", "the disk is full"],
    "/repos/{repo}": [
        *("the disk is full", "Fix the price", "Python", "poetry.lock", "is no TOML"),
    ],
    "/repos/{repo}/settings": ["CODEOWNERS"],
    "/repos/{repo}/dependencies": [
        *("requests", "2.30.0", ">=2", "urllib3", "requirements.txt", "GHSA-odd", "2.31.0"),
        "Nobody fixed it",
    ],
    "/repos/{repo}/environment": [
        *("python:3.12", "installing", "setup failed", "no such package", "build-1"),
    ],
    "/repos/{repo}/graph": ["src/shop.py", "src/tax.py", "requests"],
    "/vulnerabilities": [
        *("GHSA-odd", "Leaks a header", "requests", "2.30.0", "requirements.txt", "2.31.0"),
        *("Nobody fixed it", "npm", "the disk is away"),
    ],
    "/vulnerabilities/{advisory}": [
        *("Leaks a header", "CVE-2026-1", "requests", "1.0-odd", "2.30.0", "requirements.txt"),
        *("to others", "example.test/"),
    ],
    "/agents": ["build-1", "bwrap is missing"],
    "/pulls": ["Fix the price"],
    "/{organization}/{repo}/pulls/1": [
        *("Fix the price", "It was wrong.", "Well done", "x = 1"),
    ],
    "/{organization}/{repo}/pulls/1/commits": ["Fix the price", "It was wrong."],
    "/{organization}/{repo}/pulls/1/files": ["dear", "hello", "notes", "Why three?"],
    "/account": ["Browser/1.0", "Grace"],
    "/settings/api-keys": ["CI"],
    "/settings/api-keys/{key}": ["CI"],
    "/settings/webhooks": ["the build server"],
    "/settings/webhooks/delivery-log/{delivery}": [
        *("answered 500", "Server", "nginx", "no thanks"),
    ],
    "/settings/platforms": ["agentjobs-bot", "The token has expired"],
    "/settings/platforms/{connection}": ["agentjobs-bot", "The token has expired", "Agent Bot"],
    "/settings/trackers": ["Jira is closed"],
    "/settings/members": ["Grace", "Ada"],
    "/operator/service": ["build-1"],
    "/operator/workers": ["build-1"],
    "/settings/audit-log": ["Ada", "192.0.2.1", "a target", "a detail", "a value"],
}


def make_text(text: str) -> str:
    return text + SOUP


@pytest.fixture(scope="module")
def hostile_template(sqlite_template, tmp_path_factory):
    return build_sample_template(
        sqlite_template, tmp_path_factory.mktemp("hostile"), make_text, BRANCH
    )


@pytest.fixture
async def hostile(hostile_template, tmp_path, monkeypatch):
    make_passwords_cheap(monkeypatch)
    use_jira_double(monkeypatch)
    async with open_sample_dashboard(hostile_template, tmp_path) as dashboard:
        await _write_hostile_values(dashboard)
        yield dashboard


async def _write_hostile_values(dashboard):
    """Write values that operations reject but an older version may have stored."""
    samples, db = dashboard.samples["acme"], dashboard.db
    await write(db, "UPDATE users SET is_operator = true WHERE email = 'admin@acme.example'")
    email = f"{PAYLOAD}@acme.example"
    await write(db, "UPDATE users SET email = :e WHERE id = :id", e=email, id=samples.member)
    await write(db, "UPDATE invitations SET email = :e, id = id", e=email)
    await write(
        db,
        "UPDATE webhook_endpoints SET url = :url, disabled_at = 1, disabled_reason = 'failing'",
        url=f"https://192.0.2.10/{SOUP}",
    )
    await write(db, "UPDATE secrets SET name = :name", name=SOUP)
    actor = Actor("user", make_text("Ada"), "usr_ada", make_text("192.0.2.1"))
    details = {
        make_text("a detail"): make_text("a value"),
        "deeper": {make_text("b"): [make_text("c")]},
    }
    for action in ("api_key.created", make_text("custom.thing")):
        entry = Entry(actor, action, make_text("a target"), details)
        await db.transact(write_entry, samples.organization_id, entry)


@pytest.mark.parametrize("role", ROLES)
async def test_every_page_escapes_untrusted_text(hostile, role):
    browser, samples = getattr(hostile, role), hostile.samples["acme"]
    shown_count = 0
    for route in GETS:
        is_allowed = allows(role, "admin" if route.role == "operator" else route.role)
        if not is_allowed or route.path.endswith(("/stream", "/log", "/artifacts/{name}")):
            continue
        page = await browser.open(address_of(route, samples))
        assert page.status == 200, describe_route(route)
        assert safety_faults(page) == [], describe_route(route)
        shown_count += PAYLOAD in page.html.replace("&#34;", '"').replace("&lt;", "<").replace(
            "&gt;", ">"
        )
    assert shown_count > 8


async def test_each_untrusted_text_is_shown_literally(hostile):
    samples = vars(hostile.samples["acme"])
    for path, labels in SHOWN.items():
        page = await hostile.admin.open(path.format(**samples))
        assert page.status == 200
        text = collapse_whitespace(page.text)
        for label in labels:
            assert collapse_whitespace(label + PAYLOAD) in text, f"{path}: {label}"
        assert "{{7*7}}" in text
        assert safety_faults(page) == [], path


async def test_invisible_characters_are_shown_by_code_point(hostile):
    page = await hostile.admin.open("/agents")
    assert visible(DECEIVING) in page.text
    assert "⟦U+202E⟧" in page.text


async def test_branch_and_file_names_are_shown_and_their_links_work(hostile):
    page = await hostile.member.open("/acme/acme/shop/pulls/1")
    assert collapse_whitespace("agentjobs/open" + visible(BRANCH)) in collapse_whitespace(page.text)
    assert "Image: " not in page.text
    file_links = [link for link in page.links if "/file?" in link]
    for link in file_links:
        file_page = await hostile.member.open(link)
        assert file_page.status == 200
        assert safety_faults(file_page) == []


async def test_every_node_of_a_graph_is_shown_and_its_links_work(hostile):
    begin = "/repos/acme/shop/graph"
    waiting, visited = [begin, f"{begin}?q=s", "/repos/acme/shop/dependencies"], set()
    while waiting:
        path = waiting.pop()
        page = await hostile.viewer.open(path)
        assert page.status == 200, path
        assert safety_faults(page) == [], path
        visited.add(path)
        linked = {link for link in page.links if "/graph?" in link or "/dependencies?" in link}
        waiting += linked - visited - set(waiting)
    # Three files, one external name, a manifest, and the searches that list them.
    assert len(visited) >= 8


async def test_a_default_branch_with_any_name_is_shown(hostile):
    await write(hostile.db, "UPDATE repos SET default_branch = :name", name=make_text("main"))
    page = await hostile.viewer.open("/repos/acme/shop")
    assert page.status == 200
    assert safety_faults(page) == []
    assert collapse_whitespace("main" + PAYLOAD) in collapse_whitespace(page.text)


async def test_labels_with_any_text_are_shown(hostile):
    job = hostile.samples["acme"].failed_job
    labels = json.dumps({"team": PAYLOAD, PAYLOAD: "x"})
    await write(
        hostile.db, "UPDATE jobs SET labels = :labels WHERE id = :id", labels=labels, id=job
    )
    for path in ("/jobs", f"/jobs/{job}"):
        page = await hostile.viewer.open(path)
        assert page.status == 200
        assert safety_faults(page) == []
        assert collapse_whitespace("team=" + PAYLOAD)[:25] in collapse_whitespace(page.text)


async def test_parts_of_live_pages_escape_untrusted_text(hostile):
    samples = hostile.samples["acme"]
    event_counts = {
        "/stream": 5,
        "/jobs/stream": 1,
        f"/jobs/{samples.failed_job}/stream": 9,
        f"/jobs/{samples.running_job}/stream": 9,
        f"/jobs/{samples.running_job}/steps/stream": 7,
        "/repos/stream": 1,
        f"/repos/{samples.repo}/stream": 5,
    }
    for path, events in event_counts.items():
        stream = await listen(hostile.app, hostile.admin, path, events=events)
        parts = stream.parts()
        assert len(parts) == events, path
        assert any(PAYLOAD in part.text for part in parts.values()), path
        for name, part in parts.items():
            assert safety_faults(part) == [], f"{path}: {name}"


async def test_log_lines_are_escaped_on_the_page_and_in_the_stream(hostile):
    job = hostile.samples["acme"].running_job
    stream = await listen(hostile.app, hostile.viewer, f"/jobs/{job}/log/stream")
    lines = stream.lines()
    assert safety_faults(lines) == []
    for label in ("compiling", "in red", "the end"):
        assert f"{label}{PAYLOAD}" in lines.text
    log = await hostile.viewer.get(f"/jobs/{job}/log")
    assert log.headers["content-type"].startswith("text/plain")
    assert log.headers["x-content-type-options"] == "nosniff"


async def test_a_very_long_word_breaks_no_page(hostile):
    samples, db = hostile.samples["acme"], hostile.db
    await write(
        db,
        "UPDATE jobs SET prompt = :text, error_message = :text, config_override = :asked"
        " WHERE id = :id",
        id=samples.failed_job,
        text=LONG,
        asked=f'{{"prompt": "{LONG}", "{LONG}": "x"}}',
    )
    await write(db, "UPDATE job_logs SET text = :text", text=LONG)
    await write(db, "UPDATE job_steps SET title = :text, detail = :text", text=LONG)
    await write(db, "UPDATE pulls SET title = :text, body = :text", text=LONG)
    await write(db, "UPDATE delivery_attempts SET response_body = :body", body=LONG.encode())
    await write(db, "UPDATE workers SET hostname = :text", text=LONG)
    for path in SHOWN:
        page = await hostile.admin.open(path.format(**vars(samples)))
        assert page.status == 200
        assert safety_faults(page) == []


async def test_any_query_string_gets_a_safe_response(hostile):
    names = (
        *("q", "status", "repo", "agent", "ticket", "since", "until", "before", "state", "actor"),
        *("action", "name", "endpoint", "job", "days", "next", "token", "path", "base", "head"),
        *("after", "prompt", "more", "title", "invitation", "node", "external", "package"),
        *("ecosystem", "kind", "manifest", "vulnerable", "severity", "level", "page"),
    )
    query = urlencode(dict.fromkeys(names, SOUP))
    for route in (*GETS, *PUBLIC_ROUTES):
        if route.method == "GET" and not route.path.endswith(
            ("/stream", "/log", "/artifacts/{name}")
        ):
            address = address_of(route, hostile.samples["acme"]).partition("?")[0]
            page = await hostile.admin.open(f"{address}?{query}")
            assert page.status < 500, describe_route(route)
            assert [fault for fault in safety_faults(page) if "in the text" not in fault] == []


async def test_any_form_content_gets_a_safe_response(hostile):
    csrf = await csrf_of(hostile.admin)
    for route in (*POSTS, *PUBLIC_ROUTES):
        # A ping would be sent, and signing out would end the session.
        ends = route.path.startswith(("/sign-out", "/account/sessions"))
        if route.method == "GET" or ends or route.path.endswith("/test"):
            continue
        names = {*fields_of(route), "name", "email", "title", "more", "base_branch", "user", "job"}
        fields = {**dict.fromkeys(names, SOUP), "csrf": csrf}
        address = address_of(route, hostile.samples["acme"])
        response = await hostile.admin.http.post(address, data=fields, headers={"Origin": ADDRESS})
        page = Page(response)
        assert page.status < 500, describe_route(route)
        assert [fault for fault in safety_faults(page) if "in the text" not in fault] == []


@pytest.mark.parametrize("path", [f"/{PAYLOAD}", f"/jobs/{PAYLOAD}", f"/repos/{PAYLOAD}/{SOUP}"])
async def test_a_not_found_page_escapes_the_path(hostile, path):
    page = await hostile.admin.open(quote(path))
    assert page.status == 404
    assert safety_faults(page) == []
