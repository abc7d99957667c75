"""Comments on lines of a pull request: their form, replies, follow-ups and resolving."""

import msgspec
import pytest

from agentjobs.local_git.repositories import path as git_path
from agentjobs.web.dashboard.text import markdown
from service.tests.unit.web.dashboard.sample_data import CONFLICTING, DRAFT, OPEN
from tests.support.git_commands import commit_files, git_output
from tests.support.users import write

PULL = f"/acme/acme/shop/pulls/{OPEN}"
FILES = f"{PULL}/files"


async def key_of_shop(browser):
    page = await browser.open(FILES)
    options = page.form("/files").choices["file"]
    return options[1]


async def comment(browser, text="Use a constant.", line=3, **values):
    page = await browser.open(f"{FILES}?comment={await key_of_shop(browser)}R{line}")
    assert f"Comment on line {line} of src/shop.py" in page.text
    return await browser.send(page, f"{FILES}/comments", body=text, **values)


async def last_job(dashboard):
    return await dashboard.db.fetch_one("SELECT * FROM jobs ORDER BY id DESC LIMIT 1")


async def test_a_line_is_commented_on_without_a_script(sample_dashboard):
    member = sample_dashboard.member
    page = await member.open(FILES)
    key = await key_of_shop(member)
    page = await member.open(FILES, params={"file": key, "side": "left", "line": "1"})
    assert "Comment on old line 1 of src/shop.py" in page.text
    page = await member.send(page, f"{FILES}/comments", body="It **was** cheap")
    assert "Your comment was added." in page.text
    assert "<strong>was</strong>" in page.html
    below = page.html.index('class="insert"')
    assert page.html.index(f'id="diff-{key}L1"') < below < page.html.index("It <strong>")
    conversation = await member.open(PULL)
    assert "src/shop.py old line 1" in conversation.text
    assert "-PRICE = 1" in conversation.text
    assert f"{FILES}#diff-{key}L1" in conversation.links


async def test_the_script_gets_the_form_of_a_line(sample_dashboard):
    key = await key_of_shop(sample_dashboard.member)
    address, part = f"{FILES}?comment={key}R1", {"X-Part": "1"}
    response = await sample_dashboard.member.get(address, headers=part)
    assert response.text.startswith('<tr class="insert"><td class="insert" colspan="3">')
    split = await sample_dashboard.member.get(f"{address}&view=split", headers=part)
    assert 'colspan="4"' in split.text
    assert (await sample_dashboard.viewer.get(address, headers=part)).status_code == 404
    assert not (await sample_dashboard.viewer.open(address)).has_form("/files/comments")


async def test_a_script_whose_session_ended_causes_no_password_dialog(sample_dashboard):
    anonymous, script = sample_dashboard.anonymous.http, {"Accept": "*/*", "X-Part": "1"}
    response = await anonymous.get(FILES, headers=script)
    assert response.status_code == 401
    assert "WWW-Authenticate" not in response.headers
    program = await anonymous.get(FILES, headers={"Accept": "*/*"})
    assert program.headers["WWW-Authenticate"].startswith("Basic")


@pytest.mark.parametrize("text", [" ", "x" * 65_537])
async def test_a_refused_comment_keeps_its_text_below_the_line(sample_dashboard, text):
    page = await comment(sample_dashboard.member, text)
    assert page.status == 400
    assert page.form("/files/comments").value("body") == text


async def test_only_lines_of_the_changes_can_be_commented_on(sample_dashboard):
    member = sample_dashboard.member
    for line in ("99", "0", "x", "-1", "9" * 30):
        page = await member.open(f"{FILES}?comment={await key_of_shop(member)}R1")
        page = await member.send(page, "/files/comments", body="Hello", line=line)
        assert page.status == 400
        assert "is not part of the changes" in page.text
    page = await member.open(f"{FILES}?comment=0000000000R1")
    assert not page.has_form("/files/comments")


async def test_a_comment_is_replied_to_resolved_and_reopened(sample_dashboard):
    member = sample_dashboard.member
    page = await member.send(await member.open(FILES), "/comments/reply", body="It is dear.")
    assert page.path.endswith("/files")
    assert page.text.index("Why three?") < page.text.index("It is dear.")
    page = await member.send(page, "/comments/resolve")
    assert "Resolved conversation of" in page.text
    assert "by Grace" in page.text
    page = await member.send(await member.open(PULL), "/comments/resolve")
    assert "Reopened." in page.text
    entries = await sample_dashboard.db.fetch_all(
        "SELECT action FROM audit_log WHERE action LIKE 'pull.comment%' ORDER BY id"
    )
    actions = [entry["action"] for entry in entries]
    assert actions[-3:] == ["pull.commented", "pull.comment_resolved", "pull.comment_reopened"]


async def test_a_comment_of_another_pull_request_is_not_changed(sample_dashboard):
    member = sample_dashboard.member
    page = await member.open(PULL)
    fields = [(name, value) for name, value in page.form("/comments/resolve").fields]
    other = PULL.removesuffix(str(OPEN)) + str(CONFLICTING)
    refused = await member.post(f"{other}/comments/resolve", fields)
    assert refused.status == 400
    page = await member.open(PULL)
    refused = await member.send(page, "/comments/reply", comment="cmt_unknown", body="Kept?")
    assert refused.status == 400
    row = await sample_dashboard.db.fetch_one(
        "SELECT COUNT(*) AS count FROM pull_comments WHERE resolved_at IS NOT NULL OR reply_to"
        " IS NOT NULL"
    )
    assert row["count"] == 0


async def test_a_comment_can_ask_the_agent(sample_dashboard):
    await write(sample_dashboard.db, "UPDATE jobs SET status = 'completed' WHERE pr_number = 1")
    page = await comment(sample_dashboard.member, "Make it a `Decimal`.", ask="1")
    assert "a follow-up was started" in page.text
    assert "Follow-up by fixer" in page.text
    job = await last_job(sample_dashboard)
    samples = sample_dashboard.samples["acme"]
    assert (job["follows"], job["status"]) == (samples.finished_job, "queued")
    prompt = msgspec.json.decode(job["config_override"])["prompt"]
    assert "## src/shop.py, line 3 (after the change)" in prompt
    assert "```diff\n-PRICE = 1\n+PRICE = 3  # dear\n \n TAX = 2\n```" in prompt
    assert "Grace wrote:\nMake it a `Decimal`." in prompt
    # Only one job at a time works on a pull request; the comment is kept.
    page = await comment(sample_dashboard.member, "And this?", line=1, ask="1")
    assert "Your comment was added, but no follow-up was started." in page.text
    assert "And this?" in page.text


async def test_several_comments_start_one_follow_up(sample_dashboard):
    member = sample_dashboard.member
    await comment(member, "Rename it.")
    page = await member.open(PULL)
    assert "Start a follow-up with 2 comments" in page.text
    page = await member.send(page, f"{PULL}/follow-up")
    assert "Started a follow-up for the comments." in page.text
    prompt = msgspec.json.decode((await last_job(sample_dashboard))["config_override"])["prompt"]
    assert prompt.index("Why three?") < prompt.index("Rename it.")
    page = await member.open(PULL)
    assert "Start a follow-up with" not in page.text
    assert page.text.count("Follow-up by fixer") == 2


async def test_comments_too_long_for_a_follow_up_are_refused(sample_dashboard):
    member = sample_dashboard.member
    await comment(member, "x" * 20_000)
    page = await member.send(await member.open(PULL), f"{PULL}/follow-up")
    assert page.status == 400
    assert "too long for one follow-up" in page.text
    page = await member.open(PULL)
    fields = [("csrf", page.form("/follow-up").value("csrf")), ("comment", "cmt_unknown")]
    assert (await member.post(f"{PULL}/follow-up", fields)).status == 400


async def test_a_comment_moves_with_its_line_and_is_outdated_without_it(sample_dashboard, tmp_path):
    samples = sample_dashboard.samples["acme"]
    git_dir = git_path(sample_dashboard.context.settings.repositories_path, samples.repo_id)
    await comment(sample_dashboard.member, "About the tax", line=3)

    tree = tmp_path / "tree"
    git_output("clone", "--quiet", "--branch=agentjobs/open", str(git_dir), str(tree), cwd=tmp_path)

    def push(text):
        commit_files(tree, {"src/shop.py": text}, "more")
        git_output("push", "--quiet", cwd=tree)

    key = await key_of_shop(sample_dashboard.member)
    push("# Prices\n\nPRICE = 4\n\nTAX = 2\n")
    page = await sample_dashboard.viewer.open(PULL)
    assert f"{FILES}#diff-{key}R5" in page.links
    assert "src/shop.py line 1 · outdated" in page.text
    push("TAX = 25\n")
    page = await sample_dashboard.viewer.open(PULL)
    assert "src/shop.py line 3 · outdated" in page.text
    assert "About the tax" in page.text
    assert "About the tax" not in (await sample_dashboard.viewer.open(FILES)).text


async def test_one_file_renders_only_its_own_comments(sample_dashboard, monkeypatch):
    member, samples = sample_dashboard.member, sample_dashboard.samples["acme"]
    rendered = []
    render_all = markdown.render_all

    def record(texts):
        rendered.extend(texts)
        return render_all(texts)

    await comment(member, "Use a constant.")
    monkeypatch.setattr(markdown, "render_all", record)
    ends = f"base={samples.base}&head={samples.head}"
    page = await member.open(f"{PULL}/file?path=src/shop.py&{ends}")
    assert "Use a constant." in page.text
    assert "Why three?" in page.text
    assert set(rendered) == {"", "Why three?", "Use a constant."}
    rendered.clear()
    await member.open(f"{PULL}/file?path=README.md&{ends}")
    assert rendered == []


async def test_a_pull_request_without_a_job_has_nobody_to_ask(sample_dashboard):
    page = await sample_dashboard.member.open(PULL.removesuffix(str(OPEN)) + str(DRAFT))
    assert "Ask the agent" not in page.text
