"""Pull requests on the dashboard: lists, a conversation, merging, closing, readiness."""

import asyncio

import pytest

from tests.support.users import write
from tests.unit.web.dashboard.sample_data import CONFLICTING, DRAFT, OPEN

PULLS = "/acme/acme/shop/pulls"


def at(number):
    return f"{PULLS}/{number}"


def listed(page):
    return [link for link in page.links if link.startswith(f"{PULLS}/")]


async def test_lists_show_the_newest_first_of_all_or_of_one_repository(sample_dashboard):
    for place in ("/pulls", PULLS):
        page = await sample_dashboard.viewer.open(place)
        assert listed(page) == [at(CONFLICTING), at(DRAFT), at(OPEN)]
        assert "draft" in page.text
    assert "/repos/acme/shop" in page.links


async def test_a_list_is_narrowed_to_a_state(sample_dashboard):
    member = sample_dashboard.member
    await member.send(await member.open(at(OPEN)), f"{at(OPEN)}/close")
    assert listed(await member.open("/pulls?state=closed")) == [at(OPEN)]
    assert listed(await member.open(f"{PULLS}?state=open")) == [at(CONFLICTING), at(DRAFT)]
    page = await member.open("/pulls?state=merged")
    assert "No merged pull requests" in page.text
    assert len(listed(await member.open("/pulls?state=nonsense"))) == 3


async def test_a_list_goes_on_in_pages(sample_dashboard):
    await write(
        sample_dashboard.db,
        "WITH RECURSIVE more(number) AS (SELECT 10 UNION ALL SELECT number + 1 FROM more"
        " WHERE number < 60) INSERT INTO pulls (repo_id, number, title, body, head_branch,"
        " base_branch, head_commit, base_commit, state, created_at) SELECT :repo, number, 't',"
        " '', 'b' || number, 'main', '', '', 'open', 1 FROM more",
        repo=sample_dashboard.samples["acme"].repo_id,
    )
    seen, place = [], "/pulls?state=open"
    while place:
        page = await sample_dashboard.viewer.open(place)
        seen += listed(page)
        place = next((link for link in page.links if "before=" in link), "")
        assert not place or "state=open" in place
    assert len(seen) == len(set(seen)) == 54
    assert "/pulls?state=open" in page.links
    assert len(listed(await sample_dashboard.viewer.open("/pulls?before=nonsense"))) == 50


async def test_a_pull_request_shows_conversation_commits_and_changes(sample_dashboard):
    page = await sample_dashboard.viewer.open(at(OPEN))
    for words in (
        *("Fix the price", "#1", "agentjobs/open into main", "It was wrong.", "Well done", "Ada"),
        *("src/shop.py", "PRICE = 3", "notes.py", "Conversation 1", "Commits 1", "Changes 2"),
    ):
        assert words in page.text, words
    assert f"/jobs/{sample_dashboard.samples['acme'].finished_job}" in page.links
    assert [form.action for form in page.forms if form.method == "post"] == ["/sign-out"]


async def test_a_comment_is_added_and_shown_as_markdown(sample_dashboard):
    member = sample_dashboard.member
    page = await member.open(at(OPEN))
    page = await member.send(page, f"{at(OPEN)}/comments", body="**Bold**, and\r\n\r\n- a list")
    assert "Your comment was added." in page.text
    assert "<strong>Bold</strong>" in page.html
    assert "Conversation 2" in page.text
    assert page.text.count("Grace") >= 3


@pytest.mark.parametrize("body", [" \r\n ", "x" * 65_537])
async def test_a_refused_comment_keeps_what_was_typed(sample_dashboard, body):
    page = await sample_dashboard.member.open(at(OPEN))
    page = await sample_dashboard.member.send(page, f"{at(OPEN)}/comments", body=body)
    assert page.status == 400
    assert page.form("/comments").value("body") == body.replace("\r\n", "\n").removeprefix("\n")


async def test_merging_makes_a_commit_and_says_who_did_it(sample_dashboard):
    member = sample_dashboard.member
    page, stale = await member.open_twice(at(OPEN))
    assert "Creates a merge commit on main ." in page.text
    merged = await member.send(page, f"{at(OPEN)}/merge")
    assert "Merged into main." in merged.text
    assert "by Grace as" in merged.text
    assert not merged.has_form("/merge")
    again = await member.send(stale, f"{at(OPEN)}/merge")
    assert again.status == 409
    assert "is already merged" in again.text


async def test_a_conflict_names_the_files_and_changes_nothing(sample_dashboard):
    member = sample_dashboard.member
    page = await member.send(await member.open(at(CONFLICTING)), f"{at(CONFLICTING)}/merge")
    assert page.status == 409
    assert "The branch has conflicts with the base branch" in page.text
    assert "README.md changed on both branches" in page.text
    assert page.has_form("/merge")
    assert "agentjobs pulls" not in page.text


async def test_a_closed_one_stays_readable(sample_dashboard):
    member = sample_dashboard.member
    page, stale = await member.open_twice(at(OPEN))
    closed = await member.send(page, f"{at(OPEN)}/close")
    assert "Closed without merging." in closed.text
    assert "by Grace" in closed.text
    again = await member.send(stale, f"{at(OPEN)}/close")
    assert again.status == 409
    assert "PRICE = 3" in again.text


async def test_a_draft_is_marked_ready_and_only_then_merged(sample_dashboard):
    member = sample_dashboard.member
    page = await member.open(at(DRAFT))
    assert not page.has_form("/merge")
    fields = [("csrf", page.form("/ready").value("csrf"))]
    refused = await member.post(f"{at(DRAFT)}/merge", fields)
    assert refused.status == 409
    ready = await member.send(page, f"{at(DRAFT)}/ready")
    assert "Marked as ready for review." in ready.text
    assert ready.has_form("/merge")
    assert not ready.has_form("/ready")


async def test_one_file_is_a_page_and_a_part_of_one(sample_dashboard):
    samples = sample_dashboard.samples["acme"]
    query = {"path": "src/shop.py", "base": samples.base, "head": samples.head}
    page = await sample_dashboard.viewer.open(f"{at(OPEN)}/file", params=query)
    assert "PRICE = 3" in page.text
    assert at(OPEN) in page.links
    part = await sample_dashboard.viewer.get(
        f"{at(OPEN)}/file", params=query, headers={"X-Part": "1"}
    )
    assert "<html" not in part.text
    missing = await sample_dashboard.viewer.open(
        f"{at(OPEN)}/file", params={**query, "path": "nothing"}
    )
    assert missing.status == 404


@pytest.mark.parametrize("number", ["0", "99", "x", "9" * 30, "-1", "1e1"])
async def test_a_pull_request_that_is_nowhere_is_not_found(sample_dashboard, number):
    page = await sample_dashboard.viewer.open(at(number))
    assert page.status == 404
    assert "agentjobs pulls" not in page.text


async def test_without_the_repositorys_files_the_page_says_whom_to_tell(sample_dashboard):
    await write(
        sample_dashboard.db, "UPDATE pulls SET repo_id = repo_id, head_commit = :no", no="0" * 40
    )
    row = sample_dashboard.samples["acme"].repo_id
    (sample_dashboard.context.settings.data_path / "git" / f"{row}.git" / "HEAD").unlink()
    page = await sample_dashboard.viewer.open(at(OPEN))
    assert page.status == 503
    assert "Contact the operator" in page.text
    assert str(sample_dashboard.context.settings.data_path) not in page.html


async def test_an_address_may_name_another_of_ones_own_organizations(sample_dashboard):
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
    # As a member there, though only a viewer here.
    assert page.has_form("/merge")
    assert (await sample_dashboard.member.open("/other/other/shop/pulls/1")).status == 404


async def test_of_those_who_merge_and_close_at_once_one_did_it_and_the_others_are_told(
    sample_dashboard,
):
    member = sample_dashboard.member
    windows = await member.open_twice(at(OPEN))
    actions = [f"{at(OPEN)}/{verb}" for verb in ("merge", "close")]
    answers = await asyncio.gather(
        *(member.send(page, action) for page in windows for action in actions)
    )
    done = [each for each in answers if each.status == 200]
    assert len(done) == 1
    state = (await member.open(at(OPEN))).text
    was_merged = "Merged into main." in done[0].text
    assert ("merged 20" in state) is was_merged
    entries = await sample_dashboard.db.fetch_all(
        "SELECT action FROM audit_log WHERE action IN ('pull.merged', 'pull.closed')"
    )
    assert [entry["action"] for entry in entries] == [
        "pull.merged" if was_merged else "pull.closed"
    ]
