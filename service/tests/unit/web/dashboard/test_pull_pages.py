"""Pull requests on the dashboard: lists, a conversation, merging, closing, readiness."""

import asyncio
import hashlib
import re

import pytest

from service.tests.unit.web.dashboard.browser import ADDRESS
from service.tests.unit.web.dashboard.sample_data import CONFLICTING, DRAFT, OPEN
from tests.support.users import write

PULLS = "/acme/acme/shop/pulls"


def at(number):
    return f"{PULLS}/{number}"


def key_of(path):
    return hashlib.sha256(path.encode()).hexdigest()[:10]


def listed(page):
    return [link for link in page.links if link.startswith(f"{PULLS}/")]


async def test_lists_show_the_newest_pull_requests_first(sample_dashboard):
    for path in ("/pulls", PULLS):
        page = await sample_dashboard.viewer.open(path)
        assert listed(page) == [at(CONFLICTING), at(DRAFT), at(OPEN)]
        assert "draft" in page.text
    assert "/repos/acme/shop" in page.links


async def test_a_list_can_be_filtered_by_state(sample_dashboard):
    member = sample_dashboard.member
    await member.send(await member.open(at(OPEN)), f"{at(OPEN)}/close")
    assert listed(await member.open("/pulls?state=closed")) == [at(OPEN)]
    assert listed(await member.open(f"{PULLS}?state=open")) == [at(CONFLICTING), at(DRAFT)]
    page = await member.open("/pulls?state=merged")
    assert "No merged pull requests" in page.text
    assert len(listed(await member.open("/pulls?state=nonsense"))) == 3


async def test_a_list_is_searched_and_filtered_by_repository_author_and_agent(sample_dashboard):
    viewer = sample_dashboard.viewer
    page = await viewer.open("/pulls")
    assert "Ada · fixer" in page.text
    assert listed(await viewer.open("/pulls?q=PRICE")) == [at(CONFLICTING), at(DRAFT), at(OPEN)]
    assert listed(await viewer.open(f"{PULLS}?q=%232&state=open")) == [at(DRAFT)]
    assert listed(await viewer.open("/pulls?agent=fixer&repo=acme/shop")) == [at(OPEN)]
    author = page.form("/pulls").choices["author"][1]
    assert listed(await viewer.open(f"/pulls?author={author}")) == [at(OPEN)]
    nothing = await viewer.open("/pulls?q=nothing&state=open")
    assert "No pull requests match these filters" in nothing.text
    assert "/pulls?q=nothing&state=merged" in nothing.links
    assert "/pulls" in nothing.links


async def test_a_long_list_is_paginated(sample_dashboard):
    await write(
        sample_dashboard.db,
        "WITH RECURSIVE more(number) AS (SELECT 10 UNION ALL SELECT number + 1 FROM more"
        " WHERE number < 60) INSERT INTO pulls (repo_id, number, title, body, head_branch,"
        " base_branch, head_commit, base_commit, state, created_at) SELECT :repo, number, 't',"
        " '', 'b' || number, 'main', '', '', 'open', 1 FROM more",
        repo=sample_dashboard.samples["acme"].repo_id,
    )
    numbers, path = [], "/pulls?state=open"
    while path:
        page = await sample_dashboard.viewer.open(path)
        numbers += listed(page)
        path = next((link for link in page.links if "before=" in link), "")
        assert not path or "state=open" in path
    assert len(numbers) == len(set(numbers)) == 54
    assert "/pulls?state=open" in page.links
    assert len(listed(await sample_dashboard.viewer.open("/pulls?before=nonsense"))) == 50


@pytest.mark.parametrize(
    ("tab", "texts"),
    [
        ("", ("It was wrong.", "Well done", "Ada")),
        ("/commits", ("Ada <ada@example.com>",)),
        ("/files", ("src/shop.py", "PRICE = 3", "notes.py")),
    ],
)
async def test_each_tab_of_a_pull_request_has_its_own_address(sample_dashboard, tab, texts):
    page = await sample_dashboard.viewer.open(at(OPEN) + tab)
    head = ("Fix the price", "#1", "agentjobs/open into main")
    for text in (*head, "Conversation 2", "Commits 1", "Files changed 2", *texts):
        assert text in page.text, text
    assert {at(OPEN), f"{at(OPEN)}/commits", f"{at(OPEN)}/files"} <= set(page.links)
    assert f'href="{at(OPEN)}{tab}" aria-current="page"' in page.html
    # The form without an address is that of the marks, which a viewer may set.
    assert {form.action for form in page.forms if form.method == "post"} <= {"/sign-out", ""}


async def test_the_conversation_links_to_the_job(sample_dashboard):
    page = await sample_dashboard.viewer.open(at(OPEN))
    assert f"/jobs/{sample_dashboard.samples['acme'].finished_job}" in page.links


async def test_a_comment_is_added_and_shown_as_markdown(sample_dashboard):
    member = sample_dashboard.member
    page = await member.open(at(OPEN))
    page = await member.send(page, f"{at(OPEN)}/comments", body="**Bold**, and\r\n\r\n- a list")
    assert "Your comment was added." in page.text
    assert "<strong>Bold</strong>" in page.html
    assert "Conversation 3" in page.text
    assert page.text.count("Grace") >= 3


@pytest.mark.parametrize("body", [" \r\n ", "x" * 65_537])
async def test_a_rejected_comment_keeps_the_entered_text(sample_dashboard, body):
    page = await sample_dashboard.member.open(at(OPEN))
    page = await sample_dashboard.member.send(page, f"{at(OPEN)}/comments", body=body)
    assert page.status == 400
    assert page.form("/comments").value("body") == body.replace("\r\n", "\n").removeprefix("\n")


async def test_merging_creates_a_commit_and_shows_the_user(sample_dashboard):
    member = sample_dashboard.member
    page, stale = await member.open_twice(at(OPEN))
    assert "No conflicts with main" in page.text
    assert "Checks failed make check in 1.5 s" in page.text
    merged = await member.send(page, f"{at(OPEN)}/merge", method="merge")
    assert "Merged into main." in merged.text
    assert "by Grace as" in merged.text
    assert not merged.has_form("/merge")
    repeated = await member.send(stale, f"{at(OPEN)}/merge")
    assert repeated.status == 409
    assert "is already merged" in repeated.text


async def test_the_last_method_is_offered_first(sample_dashboard):
    member = sample_dashboard.member
    page = await member.open(at(OPEN))
    assert page.form("/merge").value("method") == "merge"
    assert page.form("/merge").choices["method"] == ["merge", "squash", "rebase"]
    await member.send(page, f"{at(OPEN)}/merge", method="squash")
    await member.send(await member.open(at(DRAFT)), f"{at(DRAFT)}/ready")
    page = await member.open(at(DRAFT))
    assert page.form("/merge").value("method") == "squash"


async def test_only_the_commits_that_the_page_showed_are_merged(sample_dashboard):
    member = sample_dashboard.member
    page = await member.open(at(OPEN))
    page = await member.send(page, f"{at(OPEN)}/merge", head_commit="0" * 40)
    assert page.status == 409
    assert "New commits were pushed after you opened the page" in page.text


async def test_conflicts_are_named_before_anyone_merges(sample_dashboard):
    member = sample_dashboard.member
    page = await member.open(at(CONFLICTING))
    assert "Conflicts with main in 1 file: README.md" in page.text
    assert not page.has_form("/merge")
    assert page.has_form("/close")
    fields = [("csrf", page.form("/close").value("csrf"))]
    refused = await member.post(f"{at(CONFLICTING)}/merge", fields)
    assert refused.status == 409
    assert "The branch has conflicts with the base branch" in refused.text
    assert "README.md changed on both branches" in refused.text
    assert "agentjobs pulls" not in refused.text


async def test_the_agent_is_asked_to_resolve_conflicts(sample_dashboard):
    member, samples = sample_dashboard.member, sample_dashboard.samples["acme"]
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET pr_number = :number, branch = :branch WHERE id = :id",
        number=CONFLICTING,
        branch="agentjobs/conflicting",
        id=samples.finished_job,
    )
    page = await member.send(
        await member.open(at(CONFLICTING)), f"{at(CONFLICTING)}/resolve-conflicts"
    )
    assert "Asked the agent to resolve the conflicts." in page.text
    assert "with conflicts in 1 file, and asked the agent" in page.text
    assert "A job is changing this pull request" in page.text
    assert "No conflicts with main" in page.text
    assert not page.has_form("/merge")
    job = await sample_dashboard.db.fetch_one("SELECT * FROM jobs ORDER BY id DESC LIMIT 1")
    assert job["follows"] == samples.finished_job
    assert "- README.md" in job["config_override"]
    files = await member.open(f"{at(CONFLICTING)}/files")
    assert "<<<<<<<" in files.text


async def test_conflicts_are_resolved_even_if_there_is_no_room_for_a_comment(
    sample_dashboard, monkeypatch
):
    member, samples = sample_dashboard.member, sample_dashboard.samples["acme"]
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET pr_number = :number, branch = 'agentjobs/conflicting' WHERE id = :id",
        number=CONFLICTING,
        id=samples.finished_job,
    )
    monkeypatch.setattr("agentjobs.pulls.comments.MAX_COMMENTS", 0)
    page = await member.send(
        await member.open(at(CONFLICTING)), f"{at(CONFLICTING)}/resolve-conflicts"
    )
    assert "Asked the agent to resolve the conflicts." in page.text


async def test_the_branch_stays_as_it_is_if_no_follow_up_can_start(sample_dashboard):
    member, samples = sample_dashboard.member, sample_dashboard.samples["acme"]
    page = await member.open(at(CONFLICTING))
    fields = [("csrf", page.form("/close").value("csrf"))]
    refused = await member.post(f"{at(CONFLICTING)}/resolve-conflicts", fields)
    assert refused.status == 409
    await write(
        sample_dashboard.db,
        "UPDATE jobs SET pr_number = :number, branch = 'elsewhere' WHERE id = :id",
        number=CONFLICTING,
        id=samples.finished_job,
    )
    page = await member.send(
        await member.open(at(CONFLICTING)), f"{at(CONFLICTING)}/resolve-conflicts"
    )
    assert page.status == 409
    assert "Conflicts with main in 1 file: README.md" in page.text
    assert "Drafts cannot be merged" not in page.text


async def test_a_closed_pull_request_stays_readable(sample_dashboard):
    member = sample_dashboard.member
    page, stale = await member.open_twice(at(OPEN))
    closed = await member.send(page, f"{at(OPEN)}/close")
    assert "Closed without merging." in closed.text
    assert "by Grace" in closed.text
    repeated = await member.send(stale, f"{at(OPEN)}/close")
    assert repeated.status == 409
    assert "PRICE = 3" in (await member.open(f"{at(OPEN)}/files")).text


async def test_a_draft_is_marked_ready_and_only_then_merged(sample_dashboard):
    member = sample_dashboard.member
    page = await member.open(at(DRAFT))
    assert not page.has_form("/merge")
    fields = [("csrf", page.form("/ready").value("csrf"))]
    error_page = await member.post(f"{at(DRAFT)}/merge", fields)
    assert error_page.status == 409
    ready = await member.send(page, f"{at(DRAFT)}/ready")
    assert "Marked as ready for review." in ready.text
    assert ready.has_form("/merge")
    assert not ready.has_form("/ready")


async def test_a_file_is_served_as_a_page_and_as_a_fragment(sample_dashboard):
    samples = sample_dashboard.samples["acme"]
    query = {"path": "src/shop.py", "base": samples.base, "head": samples.head}
    page = await sample_dashboard.viewer.open(f"{at(OPEN)}/file", params=query)
    assert "PRICE = 3" in page.text
    assert f"{at(OPEN)}/files" in page.links
    part = await sample_dashboard.viewer.get(
        f"{at(OPEN)}/file", params=query, headers={"X-Part": "1"}
    )
    assert "<html" not in part.text
    missing = await sample_dashboard.viewer.open(
        f"{at(OPEN)}/file", params={**query, "path": "nothing"}
    )
    assert missing.status == 404


async def test_a_file_of_commits_that_do_not_exist_is_not_found(sample_dashboard):
    head = sample_dashboard.samples["acme"].head
    for ends in (f"base={'f' * 40}&head={head}", f"base={head}&head={'0' * 40}"):
        page = await sample_dashboard.viewer.open(f"{at(OPEN)}/file?path=src/shop.py&{ends}")
        assert page.status == 404
        assert "Reload the page" in page.text


async def test_the_chosen_view_is_kept_for_other_changes(sample_dashboard):
    viewer, job = sample_dashboard.viewer, sample_dashboard.samples["acme"].finished_job
    assert "diff split" not in (await viewer.open(f"{at(OPEN)}/files")).html
    page = await viewer.open(f"{at(OPEN)}/files?view=split")
    assert page.html.count('<table class="diff split">') == 2
    assert f'href="{at(OPEN)}/files?view=split" aria-current' in page.html
    for path in (f"{at(OPEN)}/files", f"/jobs/{job}/changes", f"{at(OPEN)}/files?view=nonsense"):
        is_split = "nonsense" not in path
        assert ("diff split" in (await viewer.open(path)).html) is is_split, path
    assert "diff split" not in (await viewer.open(f"/jobs/{job}/changes?view=unified")).html
    assert "diff split" not in (await viewer.open(f"{at(OPEN)}/files")).html


def marks_of(page):
    """The address of each mark, and whether the file is marked."""
    found = re.findall(r'formaction="([^"]+)"[^>]+aria-pressed="(\w+)"', page.html)
    return {address: pressed == "true" for address, pressed in found}


async def test_a_viewed_file_is_folded_until_it_changes(sample_dashboard):
    viewer, member, files = sample_dashboard.viewer, sample_dashboard.member, f"{at(OPEN)}/files"
    page = await viewer.open(files)
    assert "0 of 2 viewed" in page.text
    (address,) = [each for each in marks_of(page) if key_of("src/shop.py") in each]
    csrf = ("csrf", page.form("/sign-out").value("csrf"))
    page = await viewer.post(address, [csrf, ("viewed", "yes")])
    assert "1 of 2 viewed" in page.text
    assert [address] == [each for each, is_viewed in marks_of(page).items() if is_viewed]
    assert "PRICE = 3" not in page.text
    assert "Show changes to src/shop.py" in page.text
    assert "0 of 2 viewed" in (await member.open(files)).text
    await write(sample_dashboard.db, "UPDATE pull_views SET blob_id = 'abc'")
    assert "PRICE = 3" in (await viewer.open(files)).text


async def test_a_mark_is_removed_again(sample_dashboard):
    viewer = sample_dashboard.viewer
    page = await viewer.open(f"{at(OPEN)}/files")
    address = next(iter(marks_of(page)))
    for viewed, count in (("yes", 1), ("no", 0), ("yes", 1)):
        csrf = ("csrf", page.form("/sign-out").value("csrf"))
        page = await viewer.post(address, [csrf, ("viewed", viewed)])
        assert f"{count} of 2 viewed" in page.text


async def test_a_script_gets_a_form_token_for_the_next_mark(sample_dashboard):
    viewer = sample_dashboard.viewer
    page = await viewer.open(f"{at(OPEN)}/files")
    address, token = next(iter(marks_of(page))), page.form("/sign-out").value("csrf")
    for viewed in ("yes", "no", "yes"):
        response = await viewer.http.post(
            address,
            data={"csrf": token, "viewed": viewed},
            headers={"X-Part": "1", "Origin": ADDRESS},
        )
        assert response.status_code == 200
        assert response.text not in {"", token}
        token = response.text
    assert "1 of 2 viewed" in (await viewer.open(f"{at(OPEN)}/files")).text


@pytest.mark.parametrize(
    "end", [f"/{'0' * 10}/viewed?blob=abc", f"/{key_of('src/shop.py')}/viewed?blob=%3Cx"]
)
async def test_a_mark_needs_a_file_of_the_pull_request_and_a_version(sample_dashboard, end):
    viewer = sample_dashboard.viewer
    page = await viewer.open(f"{at(OPEN)}/files")
    csrf = ("csrf", page.form("/sign-out").value("csrf"))
    page = await viewer.post(f"{at(OPEN)}/files{end}", [csrf, ("viewed", "yes")])
    assert page.status == 404
    assert "Reload the page" in page.text
    assert "0 of 2 viewed" in (await viewer.open(f"{at(OPEN)}/files")).text


async def test_files_and_lines_have_anchors_that_do_not_depend_on_other_files(sample_dashboard):
    page = await sample_dashboard.viewer.open(f"{at(OPEN)}/files")
    name = f"diff-{key_of('src/shop.py')}"
    assert f'<details class="file" id="{name}"' in page.html
    assert f'href="#{name}"' in page.html
    assert f'<td id="{name}L1">1</td>' in page.html
    assert f'<td id="{name}R1">1</td>' in page.html


@pytest.mark.parametrize("number", ["0", "99", "x", "9" * 30, "-1", "1e1"])
async def test_an_unknown_pull_request_is_not_found(sample_dashboard, number):
    page = await sample_dashboard.viewer.open(at(number))
    assert page.status == 404
    assert "agentjobs pulls" not in page.text


async def test_missing_repository_files_are_reported_with_a_contact(sample_dashboard):
    await write(
        sample_dashboard.db, "UPDATE pulls SET repo_id = repo_id, head_commit = :no", no="0" * 40
    )
    row = sample_dashboard.samples["acme"].repo_id
    (sample_dashboard.context.settings.data_path / "git" / f"{row}.git" / "HEAD").unlink()
    page = await sample_dashboard.viewer.open(at(OPEN))
    assert page.status == 503
    assert "Contact the operator" in page.text
    assert str(sample_dashboard.context.settings.data_path) not in page.html


async def test_a_url_may_name_another_organization_of_the_user(sample_dashboard):
    row = await sample_dashboard.db.fetch_one(
        "SELECT id FROM users WHERE email = 'viewer@acme.example'"
    )
    await write(
        sample_dashboard.db,
        "INSERT INTO memberships (organization_id, user_id, role, created_at)"
        " VALUES (:organization, :user, 'member', 1)",
        organization=sample_dashboard.other.organization_id,
        user=row["id"],
    )
    page = await sample_dashboard.viewer.open("/other/other/shop/pulls/1")
    assert page.status == 200
    # The user is a member of that organization and only a viewer of this one.
    assert page.has_form("/merge")
    assert (await sample_dashboard.member.open("/other/other/shop/pulls/1")).status == 404


async def test_of_concurrent_merges_and_closes_exactly_one_succeeds(
    sample_dashboard,
):
    member = sample_dashboard.member
    windows = await member.open_twice(at(OPEN))
    actions = [f"{at(OPEN)}/{verb}" for verb in ("merge", "close")]
    responses = await asyncio.gather(
        *(member.send(page, action) for page in windows for action in actions)
    )
    done = [response for response in responses if response.status == 200]
    assert len(done) == 1
    state = (await member.open(at(OPEN))).text
    was_merged = "Merged into main." in done[0].text
    assert ("merged just now" in state) is was_merged
    entries = await sample_dashboard.db.fetch_all(
        "SELECT action FROM audit_log WHERE action IN ('pull.merged', 'pull.closed')"
    )
    assert [entry["action"] for entry in entries] == [
        "pull.merged" if was_merged else "pull.closed"
    ]
