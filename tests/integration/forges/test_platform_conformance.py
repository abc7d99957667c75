"""Conformance suite for platforms beyond opening pull requests, against their API descriptions."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.forges.protocol import Comment, CommentCursor, RemoteRepository, RepoAddress
from agentjobs.git.process import GitError, GitResult, git
from agentjobs.git.remote import NETWORK_PROTOCOLS, Remote, is_access_denied
from tests.support.forge_adapters import (
    BRANCHES,
    PLATFORMS,
    PlatformBench,
    make_template,
    platform_bench,
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture(params=PLATFORMS)
async def bench(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path
) -> AsyncIterator[PlatformBench]:
    async with platform_bench(request.param, tmp_path, template) as bench:
        yield bench


async def run_git(remote: Remote, *arguments: str, **places: Path) -> GitResult:
    return await git(
        *arguments,
        configuration=remote.configuration,
        environment=remote.environment,
        protocols=NETWORK_PROTOCOLS,
        **places,
    )


async def test_a_connection_knows_its_account(bench: PlatformBench) -> None:
    account = await bench.platform.check()
    is_app = bench.kind == "github-app"
    assert account.login == ("agentjobs[bot]" if is_app else bench.server.state.account)
    assert account.missing == ()
    assert account.is_own or not is_app


async def test_all_repositories_are_listed_however_many_pages_they_take(
    bench: PlatformBench,
) -> None:
    state = bench.server.state
    for number in range(230):
        state.add_repository(f"acme/number-{number}")
    state.add_repository("acme/old", is_archived=True)
    state.add_repository("acme/.github")
    repositories = [repository async for repository in bench.platform.repositories()]
    assert len(repositories) == len({repository.external_id for repository in repositories}) == 233
    assert {repository.full_name for repository in repositories} == {
        repository.full_name for repository in state.repositories.values()
    }
    assert {repository.full_name for repository in repositories if repository.is_archived} == {
        "acme/old"
    }
    assert RemoteRepository(str(bench.row.id), "acme/shop", "main") in repositories


async def test_a_repository_is_found_after_it_was_renamed(bench: PlatformBench) -> None:
    pull = await bench.open()
    bench.server.state.rename(bench.row, "acme/store")
    repository = await bench.platform.repository(bench.repo)
    assert repository == RemoteRepository(str(bench.row.id), "acme/store", "main")
    assert (await bench.platform.pull(bench.repo, pull.number)).number == pull.number
    again = await bench.forge.open_pull_request(bench.repo, "", bench.request())
    assert again.number == pull.number
    second = await bench.open(BRANCHES[1])
    await bench.platform.comment(bench.repo, second.number, "Still here.")
    assert len(await bench.platform.comments(bench.repo, second.number, CommentCursor())) == 1


async def test_a_repository_shows_why_it_cannot_be_connected(bench: PlatformBench) -> None:
    state = bench.server.state
    bench.server.add_repository("acme/empty", {}, is_empty=True)
    for name, field in (("acme/empty", {}), ("acme/old", {"is_archived": True})):
        row = state.by_name(name) or state.add_repository(name, **field)
        repository = await bench.platform.repository(RepoAddress("acme", name, "r", str(row.id)))
        assert repository.is_archived == (name == "acme/old")
        assert (repository.default_branch == "") == (name == "acme/empty")
    if bench.kind != "github-app":
        row = state.add_repository("acme/read", own_role="read", is_private=False)
        repository = await bench.platform.repository(
            RepoAddress("acme", "acme/read", "r", str(row.id))
        )
        assert not repository.may_push


@pytest.mark.parametrize("external_id", ["99999999", ""])
async def test_a_missing_resource_is_not_found(bench: PlatformBench, external_id: str) -> None:
    gone = RepoAddress("acme", "acme/gone", "repo_gone", external_id)
    platform = bench.platform
    assert (await bench.refused(platform.repository(gone))).fault == "gone"
    assert (await bench.refused(platform.pull(gone, 1))).fault == "gone"
    assert (await bench.refused(platform.pull(bench.repo, 404))).fault == "gone"
    assert (await bench.refused(platform.issue("acme/shop", 404))).fault == "gone"
    assert (await bench.refused(platform.issue("acme/gone", 1))).fault == "gone"


async def test_a_pull_request_is_shown_as_it_is_now(bench: PlatformBench) -> None:
    opened = await bench.open(draft=True, title="Fix <it>")
    row = bench.row.pulls[opened.number]
    now = await bench.platform.pull(bench.repo, opened.number)
    assert (now.state, now.draft, now.url) == ("open", True, opened.url)
    assert now.head_commit == bench.commits[BRANCHES[0]]
    assert "Fix <it>" in now.title
    row.state = "closed"
    assert (await bench.platform.pull(bench.repo, opened.number)).state == "closed"
    row.is_merged = True
    assert (await bench.platform.pull(bench.repo, opened.number)).state == "merged"
    existing = await bench.forge.pull_of_branch(bench.repo, BRANCHES[0])
    assert existing is not None
    assert existing.state == "merged"


async def test_a_pull_request_closed_without_merging_is_not_opened_again(
    bench: PlatformBench,
) -> None:
    opened = await bench.open()
    bench.row.pulls[opened.number].state = "closed"
    for is_follow_up in (False, True):
        error = await bench.refused(bench.open(is_follow_up=is_follow_up))
        assert "was closed without merging" in str(error)
        assert error.fault == "refused"
    assert len(bench.row.pulls) == 1


async def test_a_branch_of_the_same_name_in_a_fork_is_ignored(bench: PlatformBench) -> None:
    state = bench.server.state
    row = state.add_pull(bench.row, "Not ours", BRANCHES[0], author="eve", fork_owner="eve")
    assert await bench.forge.pull_of_branch(bench.repo, BRANCHES[0]) is None
    opened = await bench.open()
    assert opened.number != row.number
    existing = await bench.forge.pull_of_branch(bench.repo, BRANCHES[0])
    assert existing is not None
    assert existing.number == opened.number


async def test_a_merged_pull_request_is_reused_only_for_its_own_head(bench: PlatformBench) -> None:
    opened = await bench.open()
    row = bench.row.pulls[opened.number]
    row.state, row.is_merged, row.head_commit = "closed", True, bench.commits[BRANCHES[0]]
    assert (await bench.open()).number == opened.number
    error = await bench.refused(
        bench.open(is_follow_up=True, head_commit=bench.commits[BRANCHES[1]])
    )
    assert "was merged before" in str(error)


async def test_a_follow_up_as_a_draft_is_one_or_notes_why_not(bench: PlatformBench) -> None:
    opened = await bench.open()
    again = await bench.open(is_follow_up=True, draft=True)
    assert again.number == opened.number
    assert again.draft or again.notes
    assert (await bench.platform.pull(bench.repo, opened.number)).draft == again.draft


async def test_labels_and_reviewers_are_requested_and_failures_are_notes(
    bench: PlatformBench,
) -> None:
    state = bench.server.state
    for login in ("wanda", "mia"):
        state.add_user(login)
        bench.row.roles[login] = "write"
    bench.row.labels.append("bug")
    own = (await bench.platform.check()).login
    opened = await bench.open(
        labels=("bug", "agent jobs"), reviewers=("@wanda", "nobody-here", "mia", f"@{own}")
    )
    row = bench.row.pulls[opened.number]
    assert sorted(row.labels) == ["agent jobs", "bug"]
    assert set(row.reviewers) <= {"wanda", "mia"}
    assert row.reviewers
    assert len(opened.notes) == 1 + len({"wanda", "mia"} - set(row.reviewers))
    assert any("nobody-here" in note for note in opened.notes)


async def test_comments_are_returned_once_and_in_order(bench: PlatformBench) -> None:
    opened = await bench.open()
    state = bench.server.state
    row = bench.row.pulls[opened.number]
    written = [state.add_comment(row, "ada", f"Nr. {at} <b>ü</b>") for at in range(130)]
    comments = await bench.platform.comments(bench.repo, opened.number, CommentCursor())
    assert [(comment.id, comment.author, comment.text) for comment in comments] == [
        (comment.id, "ada", comment.text) for comment in written
    ]
    assert all(comment.url.startswith(bench.server.url) for comment in comments)
    later = await bench.platform.comments(bench.repo, opened.number, CommentCursor(written[127].id))
    assert [comment.id for comment in later] == [comment.id for comment in written[128:]]
    assert (
        await bench.platform.comments(bench.repo, opened.number, CommentCursor(written[-1].id))
        == []
    )


def cursor_after(comments: list[Comment]) -> CommentCursor:
    highest = {
        comment.kind: comment.id for comment in sorted(comments, key=lambda comment: comment.id)
    }
    return CommentCursor(*(highest.get(kind, 0) for kind in ("comment", "line", "review")))


async def test_line_comments_and_reviews_are_read_once(bench: PlatformBench) -> None:
    opened = await bench.open()
    state = bench.server.state
    row = bench.row.pulls[opened.number]
    state.add_comment(row, "ada", "In general")
    review = state.add_review(row, "grace", "All in all")
    state.add_line(review, "Here", "src/a b.py", line=12)
    state.add_line(review, "There", "old.py", old_line=3)
    state.add_line(review, "Nowhere now", "src/gone.py")
    state.add_review(row, "rita")
    for login in ("rita", (await bench.platform.check()).login):
        begun = state.add_review(row, login, "Not sent yet", is_pending=True)
        state.add_line(begun, "Neither is this", "old.py", line=1)
    comments = await bench.platform.comments(bench.repo, opened.number, CommentCursor())
    # GitLab numbers comments and reviews in one sequence.
    review_kind, line_kind = ("comment",) * 2 if bench.kind == "gitlab" else ("review", "line")
    assert {
        (comment.kind, comment.author, comment.text, comment.place) for comment in comments
    } == {
        ("comment", "ada", "In general", ""),
        (review_kind, "grace", "All in all", ""),
        (line_kind, "grace", "Here", "src/a b.py, line 12"),
        (line_kind, "grace", "There", "old.py, line 3 before the change"),
        (line_kind, "grace", "Nowhere now", "src/gone.py"),
    }
    assert len({comment.url for comment in comments}) == len(comments) == 5
    assert all(comment.url.startswith(f"{opened.url}#") for comment in comments)
    cursor = cursor_after(comments)
    assert await bench.platform.comments(bench.repo, opened.number, cursor) == []
    state.add_line(review, "An answer", "src/a b.py", line=12, author="ada")
    state.add_review(row, "grace", "Once more")
    later = await bench.platform.comments(bench.repo, opened.number, cursor)
    assert sorted((comment.author, comment.text) for comment in later) == [
        ("ada", "An answer"),
        ("grace", "Once more"),
    ]


async def test_without_a_cursor_only_the_newest_of_each_kind_is_returned(
    bench: PlatformBench,
) -> None:
    opened = await bench.open()
    state = bench.server.state
    row = bench.row.pulls[opened.number]
    for at in range(60):
        state.add_line(state.add_review(row, "ada", f"text {at}"), f"line {at}", "a.py", line=1)
    comments = await bench.platform.comments(
        bench.repo, opened.number, CommentCursor(10**9, None, None)
    )
    expected = [] if bench.kind == "gitlab" else ["line 59", "text 59"]
    assert [comment.text for comment in comments] == expected
    cursor = cursor_after(comments)
    state.add_line(state.add_review(row, "ada", "new text"), "new line", "a.py", line=1)
    if expected:
        newer = await bench.platform.comments(bench.repo, opened.number, cursor)
        assert [comment.text for comment in newer] == ["new line", "new text"]


async def test_a_comment_is_posted_once(bench: PlatformBench) -> None:
    opened = await bench.open()
    await bench.platform.comment(bench.repo, opened.number, "Done: \x00 \ud800 `x` ü")
    (comment,) = bench.row.pulls[opened.number].comments
    assert comment.text.startswith("Done: ")
    assert comment.text.endswith("`x` ü")
    (returned,) = await bench.platform.comments(bench.repo, opened.number, CommentCursor())
    assert returned.author == (await bench.platform.check()).login


async def test_write_access_depends_on_the_role(bench: PlatformBench) -> None:
    roles = {"rita": "read", "wanda": "write", "mia": "maintain", "adam": "admin"}
    for login, role in roles.items():
        bench.server.state.add_user(login)
        bench.row.roles[login] = role  # type: ignore[assignment]
    bench.server.state.add_user("mallory")
    logins = [*roles, "mallory", "nobody-here", "renovate[bot]", "../../user"]
    may = [login for login in logins if await bench.platform.may_write(bench.repo, login)]
    assert may == ["wanda", "mia", "adam"]


async def test_an_issue_is_read_and_written_to(bench: PlatformBench) -> None:
    state = bench.server.state
    row = state.add_issue(bench.row, "It breaks", text="When ü\n\n- a", labels=["bug", "p 1"])
    bare = state.add_issue(bench.row, "No description")
    issue = await bench.platform.issue("acme/shop", row.number)
    assert (issue.full_name, issue.number, issue.title) == ("acme/shop", row.number, "It breaks")
    assert (issue.text, issue.labels) == ("When ü\n\n- a", ("bug", "p 1"))
    assert issue.url.startswith(bench.server.url)
    assert (await bench.platform.issue("acme/shop", bare.number)).text == ""
    await bench.platform.comment_on_issue("acme/shop", row.number, "A pull request is open.")
    assert [comment.text for comment in row.comments] == ["A pull request is open."]


async def test_git_fetches_and_pushes_with_the_connections_credential(
    bench: PlatformBench, tmp_path: Path
) -> None:
    clone = tmp_path / "clone.git"
    async with bench.forge.open_remote(bench.repo, "") as remote:
        await run_git(remote, "clone", "--bare", "--quiet", remote.url, str(clone))
        refs = ("main:refs/heads/agentjobs/new", "main:refs/heads/kept")
        await run_git(remote, "push", "--quiet", remote.url, *refs, git_dir=clone)
    assert bench.server.git.head(bench.row, "agentjobs/new") == bench.base
    bench.row.protected.add("kept")
    moved = f"{BRANCHES[0]}:refs/heads/kept"
    async with bench.forge.open_remote(bench.repo, "") as remote:
        with pytest.raises(GitError) as raised:
            await run_git(remote, "push", "--quiet", remote.url, moved, git_dir=clone)
    assert "Protected branch" in raised.value.stderr
    assert bench.server.git.head(bench.row, "kept") == bench.base
    assert not [secret for secret in bench.known_secrets if secret in f"{raised.value!r}"]


async def test_git_is_refused_with_a_revoked_credential(bench: PlatformBench) -> None:
    async with bench.forge.open_remote(bench.repo, "") as remote:
        bench.server.token = "another"
        if bench.kind == "github-app":
            bench.server.app.tokens.clear()  # type: ignore[attr-defined]
        with pytest.raises(GitError) as raised:
            await run_git(remote, "ls-remote", remote.url)
    assert is_access_denied(raised.value.stderr)


async def test_a_repository_may_have_any_name_that_the_platform_accepts(
    bench: PlatformBench, template: Path
) -> None:
    names = ["acme/.github", "a-c-m-e/x.y_z-", "Acme/UPPER"]
    for name in [*names, "acme/deep/er/shop"] if bench.kind == "gitlab" else names:
        row = bench.server.add_repository(name)
        bench.server.git.directory(row).symlink_to(bench.git_dir)
        repo = RepoAddress("acme", name, "repo_2", str(row.id))
        assert (await bench.platform.repository(repo)).full_name == name
        opened = await bench.platform.open_pull_request(repo, "", bench.request())
        assert (await bench.platform.pull(repo, opened.number)).number == opened.number
        async with bench.platform.open_remote(repo, "") as remote:
            listed = await run_git(remote, "ls-remote", remote.url, "refs/heads/main")
        assert listed.stdout.decode().startswith(bench.base)
