"""The conformance suites of the adapter, against live servers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentjobs.platforms.protocol import (
    STATUS_NAME,
    Comment,
    CommentCursor,
    CommitStatus,
    PlatformError,
    RepoAddress,
    StatusState,
)
from agentjobs_runtime.mirrors.errors import PushRejected
from agentjobs_runtime.mirrors.publish import push
from service.tests.integration.platforms.test_conformance import (  # noqa: F401 - the suite's tests
    test_a_branch_may_have_any_name_that_git_accepts,
    test_a_draft_is_opened_as_a_draft_and_adopted_as_one,
    test_a_follow_up_needs_an_open_pull_request,
    test_a_missing_repository_is_a_forge_error,
    test_a_pull_request_has_a_number_and_an_address,
    test_a_pull_request_is_opened_whatever_title_the_agent_writes,
    test_a_second_request_for_a_branch_returns_the_same_pull_request,
    test_concurrent_requests_open_one_pull_request,
    test_the_credential_is_not_part_of_the_address,
    test_two_branches_are_two_pull_requests,
)
from service.tests.integration.platforms.test_platform_conformance import (  # noqa: F401 - the suite's tests
    cursor_after,
    test_a_branch_is_deleted_only_where_it_is_expected,
    test_a_follow_up_as_a_draft_is_one_or_notes_why_not,
    test_heads_of_pull_requests_are_fetched_beside_the_copy,
)
from tests.platforms.harness import BOT, LiveHarness, live_harness, new_adapter
from tests.platforms.live_server import ADMIN, LiveServer, call
from tests.support.git_commands import commit_files, git_output
from tests.support.platform_adapters import BRANCHES, make_template
from tests.support.service import wait_until


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
async def harness(server: LiveServer, template: Path) -> AsyncIterator[LiveHarness]:
    async with live_harness(server, template) as harness:
        yield harness


async def fault_of(request: Any) -> str:
    with pytest.raises(PlatformError) as raised:
        await request
    return raised.value.fault


async def test_a_token_with_the_documented_scopes_is_enough_and_others_are_named(
    server: LiveServer,
) -> None:
    server.person(BOT)
    async with new_adapter(server) as platform:
        account = await platform.check()
        assert (account.login, account.missing, account.missing_extras) == (BOT, (), ())
    token = server.new_token(BOT, ("read:repository", "write:issue", "read:user"))
    async with new_adapter(server, token) as platform:
        account = await platform.check()
        assert account.missing == ("write:repository",)
        assert [extra.split()[0] for extra in account.missing_extras] == ["read:organization"]
    async with new_adapter(server, "0" * 40) as platform:
        assert await fault_of(platform.check()) == "unauthorized"


async def test_all_repositories_are_listed(server: LiveServer, harness: LiveHarness) -> None:
    owner = harness.repo.full_name.partition("/")[0]
    names = {server.new_repository(owner)["full_name"] for _ in range(60)}
    listed = {remote.full_name: remote async for remote in harness.platform.repositories()}
    assert names | {harness.repo.full_name} <= listed.keys()
    assert listed[harness.repo.full_name] == await harness.platform.repository(harness.repo)
    assert {listed[name].default_branch for name in names} == {""}


async def test_a_repository_shows_why_it_cannot_be_connected(
    server: LiveServer, harness: LiveHarness
) -> None:
    remote = await harness.platform.repository(harness.repo)
    assert (remote.default_branch, remote.may_push, remote.is_archived) == ("main", True, False)
    call(server.admin, "PATCH", harness.path, {"archived": True})
    assert (await harness.platform.repository(harness.repo)).is_archived
    call(server.admin, "PATCH", harness.path, {"archived": False})
    other = server.new_repository(server.new_organization())
    address = RepoAddress("acme", other["full_name"], "repo_2", str(other["id"]))
    assert await fault_of(harness.platform.repository(address)) == "gone"
    path = f"/repos/{other['full_name']}/collaborators/{BOT}"
    call(server.admin, "PUT", path, {"permission": "read"})
    assert not (await harness.platform.repository(address)).may_push


@pytest.mark.parametrize("external_id", ["99999999", ""])
async def test_a_missing_resource_is_not_found(harness: LiveHarness, external_id: str) -> None:
    gone = RepoAddress("acme", "acme/gone", "repo_gone", external_id)
    platform, full_name = harness.platform, harness.repo.full_name
    assert await fault_of(platform.repository(gone)) == "gone"
    assert await fault_of(platform.pull(gone, 1)) == "gone"
    assert await fault_of(platform.pull(harness.repo, 404)) == "gone"
    assert await fault_of(platform.issue(full_name, 404)) == "gone"
    assert await fault_of(platform.issue("acme/gone", 1)) == "gone"


async def test_a_repository_is_found_after_it_and_its_owner_were_renamed(
    server: LiveServer, harness: LiveHarness
) -> None:
    repo = harness.repo
    pull = await harness.open()
    call(server.admin, "PATCH", harness.path, {"name": "renamed"})
    name = server.change_owner(f"{repo.full_name.partition('/')[0]}/renamed", BOT)
    async with new_adapter(server) as platform:
        assert (await platform.repository(repo)).full_name == name
        assert (await platform.pull(repo, pull.number)).head_commit == harness.commits[BRANCHES[0]]
        again = await platform.open_pull_request(repo, "", harness.request())
        assert again.number == pull.number
        assert again.url.startswith(f"{server.url}/{name}/")
        second = await platform.open_pull_request(repo, "", harness.request(BRANCHES[1]))
        await platform.comment(repo, second.number, "Still here.")
        assert len(await platform.comments(repo, second.number, CommentCursor())) == 1
        # The server redirects from the former name.
        number = call(server.admin, "POST", f"/repos/{name}/issues", {"title": "It breaks"})[
            "number"
        ]
        issue = await platform.issue(repo.full_name, number)
        assert (issue.title, issue.full_name) == ("It breaks", name)
        await platform.comment_on_issue(issue.full_name, number, "A pull request is open.")


async def test_the_newest_open_pull_requests_to_a_branch_are_listed(harness: LiveHarness) -> None:
    first, second = await harness.open(), await harness.open(BRANCHES[1])
    pulls = await harness.platform.open_pulls(harness.repo, "main")
    assert [pull.number for pull in pulls] == [second.number, first.number]
    assert [pull.head_commit for pull in pulls] == [harness.commits[b] for b in reversed(BRANCHES)]
    harness.close(first.number)
    (open_pull,) = await harness.platform.open_pulls(harness.repo, "main")
    assert open_pull.number == second.number
    assert await harness.platform.open_pulls(harness.repo, "other") == []


async def test_a_pull_request_is_shown_as_it_is_now(harness: LiveHarness) -> None:
    opened = await harness.open(draft=True, title="Fix <it>")
    now = await harness.platform.pull(harness.repo, opened.number)
    assert (now.title, now.state, now.draft, now.url) == ("Fix <it>", "open", True, opened.url)
    assert now.head_commit == harness.commits[BRANCHES[0]]
    harness.act(ADMIN, "PATCH", f"/pulls/{opened.number}", {"title": "Ready"})
    assert not (await harness.platform.pull(harness.repo, opened.number)).draft
    harness.close(opened.number)
    assert (await harness.platform.pull(harness.repo, opened.number)).state == "closed"
    for is_follow_up in (False, True):
        with pytest.raises(PlatformError, match="was closed without merging"):
            await harness.open(is_follow_up=is_follow_up)


async def test_a_merged_pull_request_has_the_head_that_was_merged(
    harness: LiveHarness, tmp_path: Path
) -> None:
    opened = await harness.open()
    merged = harness.commits[BRANCHES[0]]
    harness.merge(opened.number)
    now = await harness.platform.pull(harness.repo, opened.number)
    assert (now.state, now.head_commit) == ("merged", merged)
    assert (await harness.open()).number == opened.number
    # The branch gets new commits that were not merged.
    later = make_commit(harness, tmp_path / "tree", BRANCHES[0])
    harness.push_commit(later, BRANCHES[0])
    assert (await harness.platform.pull(harness.repo, opened.number)).head_commit == merged
    with pytest.raises(PlatformError, match="was merged before"):
        await harness.open(head_commit=later, is_follow_up=True)
    assert (await harness.open(head_commit=later)).number > opened.number


def make_commit(harness: LiveHarness, tree: Path, branch: str) -> str:
    """On top of the branch, in the copy."""
    git_output(
        "clone", "--quiet", "--branch", branch, str(harness.git_dir), str(tree), cwd=tree.parent
    )
    commit = commit_files(tree, {"later.txt": branch}, "Later")
    git_output("fetch", "--quiet", str(tree), commit, cwd=harness.git_dir)
    return commit


async def test_a_pull_request_is_merged_with_each_method_or_closed(
    harness: LiveHarness, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    git_output("clone", "--quiet", "--branch=main", str(harness.git_dir), str(tree), cwd=tmp_path)
    for method in harness.platform.merge_methods:
        git_output("checkout", "--quiet", "--detach", "origin/main", cwd=tree)
        head = commit_files(tree, {f"{method}.txt": method}, method)
        harness.server.push(tree, harness.repo.full_name, f"{head}:refs/heads/{method}")
        opened = await harness.open(method, head_commit=head)
        options = {"method": method, "head_commit": harness.base}
        refused = harness.platform.merge_pull(harness.repo, opened.number, **options)
        assert await fault_of(refused) == "refused"
        options["head_commit"] = head
        # Without a pause, so that the server may still be looking for conflicts.
        await harness.platform.merge_pull(harness.repo, opened.number, **options)
        remote = await harness.platform.pull(harness.repo, opened.number)
        assert (remote.state, remote.head_commit) == ("merged", head)
    opened = await harness.open()
    await harness.platform.close_pull(harness.repo, opened.number)
    assert (await harness.platform.pull(harness.repo, opened.number)).state == "closed"


async def test_drafts_and_conflicts_are_not_merged(harness: LiveHarness) -> None:
    first, second = BRANCHES

    async def merge(number: int, branch: str) -> None:
        head = harness.commits[branch]
        await harness.platform.merge_pull(harness.repo, number, method="merge", head_commit=head)

    draft = await harness.open(second, draft=True)
    with pytest.raises(PlatformError, match=r"(?i)work in progress") as raised:
        await merge(draft.number, second)
    assert raised.value.fault == "refused"
    await merge((await harness.open(first)).number, first)
    harness.act(ADMIN, "PATCH", f"/pulls/{draft.number}", {"title": "Ready"})
    with pytest.raises(PlatformError, match="conflicts") as raised:
        await merge(draft.number, second)
    assert raised.value.fault == "refused"


async def test_a_branch_of_the_same_name_in_a_fork_is_ignored(
    server: LiveServer, harness: LiveHarness
) -> None:
    harness.let_collaborate("eve", "read")
    fork = harness.act("eve", "POST", "/forks", {})["full_name"]
    server.push(harness.git_dir, fork, BRANCHES[0], login="eve")
    body = {"head": f"eve:{BRANCHES[0]}", "base": "main", "title": "Not ours"}
    foreign = harness.act("eve", "POST", "/pulls", body)
    assert await harness.adapter.pull_of_branch(harness.repo, BRANCHES[0]) is None
    opened = await harness.open()
    assert opened.number != foreign["number"]
    existing = await harness.adapter.pull_of_branch(harness.repo, BRANCHES[0])
    assert existing is not None
    assert existing.number == opened.number


async def test_labels_and_reviewers_are_requested_and_failures_are_notes(
    harness: LiveHarness,
) -> None:
    for login in ("wanda", "mia"):
        harness.let_collaborate(login, "write")
    harness.act(ADMIN, "POST", "/labels", {"name": "bug", "color": "#ff0000"})
    opened = await harness.open(
        labels=("bug", "agent jobs"), reviewers=("@wanda", "nobody-here", "mia", f"@{BOT}")
    )
    pull = harness.pull_json(opened.number)
    assert {label["name"] for label in pull["labels"]} == {"bug", "agent jobs"}
    assert {user["login"] for user in pull["requested_reviewers"]} == {"wanda", "mia"}
    (note,) = opened.notes
    assert "nobody-here" in note
    again = await harness.open(labels=("BUG",), reviewers=("wanda",))
    assert (again.number, again.notes) == (opened.number, ())


async def test_a_team_is_requested_as_a_reviewer(server: LiveServer, harness: LiveHarness) -> None:
    owner = harness.repo.full_name.partition("/")[0]
    team = call(server.admin, "GET", f"/teams/{server.new_team(owner, 'write', 'wanda')}")["name"]
    opened = await harness.open(reviewers=(f"@{owner}/{team}", "@elsewhere/team"))
    pull = harness.pull_json(opened.number)
    assert [entry["name"] for entry in pull["requested_reviewers_teams"] or ()] == [team]
    (note,) = opened.notes
    assert "elsewhere/team" in note


async def test_comments_are_returned_once_and_in_order(harness: LiveHarness) -> None:
    opened = await harness.open()
    harness.let_collaborate("ada", "write")
    path = f"/issues/{opened.number}/comments"
    written = [
        harness.act("ada", "POST", path, {"body": f"Nr. {at} <b>ü</b>"})["id"] for at in range(60)
    ]
    comments = await harness.platform.comments(harness.repo, opened.number, CommentCursor())
    assert [comment.id for comment in comments] == written
    assert {comment.author for comment in comments} == {"ada"}
    assert comments[7].text == "Nr. 7 <b>ü</b>"
    # The adapter then knows that the conversation is long, and asks for its end.
    await harness.platform.pull(harness.repo, opened.number)
    cursor = CommentCursor(written[57])
    later = await harness.platform.comments(harness.repo, opened.number, cursor)
    assert [comment.id for comment in later] == written[58:]
    await harness.platform.comment(harness.repo, opened.number, "First \x00 ü")
    (own,) = await harness.platform.comments(
        harness.repo, opened.number, CommentCursor(written[-1])
    )
    assert own.author == BOT


def submit_review(
    harness: LiveHarness,
    number: int,
    login: str,
    text: str,
    *lines: dict[str, Any],
    event: str = "COMMENT",
) -> dict[str, Any]:
    body = {"body": text, "event": event, "comments": list(lines)}
    return dict(harness.act(login, "POST", f"/pulls/{number}/reviews", body))


def on_line(text: str, line: int = 1, path: str = "new.txt", **fields: int) -> dict[str, Any]:
    return {"path": path, "body": text, "new_position": line, **fields}


async def read_texts(
    harness: LiveHarness, number: int, cursor: CommentCursor
) -> tuple[list[Comment], list[tuple[str, str, str, str]]]:
    comments = await harness.platform.comments(harness.repo, number, cursor)
    return comments, [(one.kind, one.author, one.text, one.location) for one in comments]


async def test_line_comments_and_reviews_are_read_once(harness: LiveHarness) -> None:
    opened = await harness.open()
    number = opened.number
    for login in ("ada", "grace", "rita"):
        harness.let_collaborate(login, "write")
    harness.act("ada", "POST", f"/issues/{number}/comments", {"body": "In general"})
    submit_review(harness, number, "grace", "All in all", on_line("Here"))
    submit_review(
        harness, number, "rita", "Not sent yet", on_line("Neither is this"), event="PENDING"
    )
    comments, texts = await read_texts(harness, number, CommentCursor())
    assert sorted(texts) == [
        ("comment", "ada", "In general", ""),
        ("line", "grace", "Here", "new.txt, line 1"),
        ("review", "grace", "All in all", ""),
    ]
    assert len({comment.url for comment in comments}) == 3
    assert all(comment.url.startswith(f"{opened.url}#") for comment in comments)
    cursor = cursor_after(comments)
    assert await read_texts(harness, number, cursor) == ([], [])
    submit_review(harness, number, "grace", "Hm", on_line("Once more"), event="REQUEST_CHANGES")
    submit_review(harness, number, "ada", "Fine", event="APPROVED")
    _, texts = await read_texts(harness, number, cursor)
    assert sorted(texts) == [
        ("line", "grace", "Once more", "new.txt, line 1"),
        ("review", "ada", "Fine", ""),
        ("review", "grace", "Hm", ""),
    ]


async def test_who_may_write_is_known_for_collaborators_and_teams(
    server: LiveServer, harness: LiveHarness
) -> None:
    for login, permission in (("ada", "write"), ("rea", "read"), ("mona", "admin")):
        harness.let_collaborate(login, permission)
    owner = harness.repo.full_name.partition("/")[0]
    server.new_team(owner, "write", "tina")
    server.new_team(owner, "read", "rob")
    server.person("nobody-special")
    writers = {"ada", "mona", "tina", ADMIN}
    for login in (*writers, "rea", "rob", "nobody-special", "nobody-here-at-all"):
        may_write = await harness.platform.may_write(harness.repo, login)
        assert may_write is (login in writers), login


async def test_a_push_to_a_protected_branch_is_refused_with_the_reason(
    harness: LiveHarness,
) -> None:
    rule = {"rule_name": "agentjobs/**", "enable_push": False}
    harness.act(ADMIN, "POST", "/branch_protections", rule)
    async with harness.platform.open_remote(harness.repo, "") as remote:
        with pytest.raises(PushRejected, match="protected branch"):
            await push(harness.git_dir, harness.base, "agentjobs/three", remote, expected=None)


STATUS_URL = "https://agentjobs.example.org/jobs/job_1"


async def report(harness: LiveHarness, state: StatusState, commit: str) -> None:
    status = CommitStatus(
        commit=commit, branch=BRANCHES[0], state=state, description="Done", url=STATUS_URL
    )
    await harness.platform.set_status(harness.repo, status)


async def test_branch_rules_can_require_the_result_of_a_job(harness: LiveHarness) -> None:
    rule = {
        "rule_name": "main",
        "enable_status_check": True,
        "status_check_contexts": [STATUS_NAME],
    }
    harness.act(ADMIN, "POST", "/branch_protections", rule)
    number, commit = (await harness.open()).number, harness.commits[BRANCHES[0]]
    # Before, every merge is refused, because conflicts are looked for.
    wait_until(lambda: harness.pull_json(number)["mergeable"], "the search for conflicts")
    api, merge = harness.server.admin, f"{harness.path}/pulls/{number}/merge"
    states: dict[StatusState | None, str] = {None: "", "pending": "pending", "failure": "failure"}
    for state, shown in states.items():
        if state is not None:
            await report(harness, state, commit)
        combined = harness.act(ADMIN, "GET", f"/commits/{commit}/status")
        rows = [(row["context"], row["status"]) for row in combined["statuses"] or ()]
        assert rows == ([(STATUS_NAME, shown)] if shown else [])
        refused = api.post(merge, json={"Do": "merge"})
        assert (refused.status_code, "status check" in refused.text) == (405, True), refused.text
    await report(harness, "neutral", commit)
    (row,) = harness.act(ADMIN, "GET", f"/commits/{commit}/status")["statuses"]
    assert (row["status"], row["description"], row["target_url"]) == ("success", "Done", STATUS_URL)
    harness.merge(number)


async def test_a_result_of_a_commit_that_does_not_exist_is_refused(harness: LiveHarness) -> None:
    assert await fault_of(report(harness, "success", "1" * 40)) in {"gone", "refused"}
