"""Conformance suite for platforms beyond opening pull requests, against their API descriptions."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from agentjobs.jobs.operations.open_pulls import OpenPullReader, Proposals, ScannedRepo, WantedFix
from agentjobs.jobs.operations.proposed_fixes import ProposingPull
from agentjobs.local_git import repositories
from agentjobs.local_git.copies import refresh_copy
from agentjobs.local_git.pull_heads import fetch_heads
from agentjobs.platforms.protocol import (
    Comment,
    CommentCursor,
    Platform,
    RemoteRepository,
    RepoAddress,
)
from agentjobs_runtime.git.process import GitError, GitResult, git
from agentjobs_runtime.git.refs import has_commit
from agentjobs_runtime.git.remote import NETWORK_PROTOCOLS, Remote, is_access_denied
from agentjobs_runtime.mirrors.errors import PushRejected, RepoUnavailable
from agentjobs_runtime.mirrors.publish import branch_head, delete_branch, push
from agentjobs_runtime.settings import Settings
from tests.support.forge_servers import push_refusals
from tests.support.git_commands import git_output
from tests.support.platform_adapters import (
    BRANCHES,
    PlatformHarness,
)


async def run_git(remote: Remote, *arguments: str, **places: Path) -> GitResult:
    return await git(
        *arguments,
        configuration=remote.configuration,
        environment=remote.environment,
        protocols=NETWORK_PROTOCOLS,
        **places,
    )


async def test_lists_are_read_from_a_server_that_names_another_host_in_its_links(
    harness: PlatformHarness,
) -> None:
    harness.server.link_origin = "http://platform.internal:8080"
    for number in range(110):
        harness.server.add_repository(f"acme/r{number}")
    names = {remote.full_name async for remote in harness.platform.repositories()}
    assert len(names) == 111
    opened = await harness.open()
    for number in range(70):
        harness.server.state.add_comment(harness.row.pulls[opened.number], "ada", f"{number}")
    comments = await harness.platform.comments(harness.repo, opened.number, CommentCursor())
    assert len(comments) == 70


async def test_a_refused_push_says_what_to_do_and_a_merge_queue_is_waited_for(
    harness: PlatformHarness,
) -> None:
    async with harness.platform.open_remote(harness.repo, "") as remote:
        harness.row.push_refusal = push_refusals.GITHUB_SECRET
        with pytest.raises(PushRejected, match=r"DeepSeek API Key in \.env, line 6"):
            await push(harness.git_dir, harness.base, "agentjobs/x", remote, expected=None)
        harness.row.push_refusal = push_refusals.GITHUB_MERGE_QUEUE
        with pytest.raises(RepoUnavailable, match="merge queue") as caught:
            await push(harness.git_dir, harness.base, "agentjobs/x", remote, expected=None)
    assert caught.value.is_temporary


async def test_a_branch_is_deleted_only_where_it_is_expected(
    harness: PlatformHarness, tmp_path: Path
) -> None:
    own = tmp_path / "own.git"
    await git("init", "--quiet", "--bare", str(own))
    kept, deleted = BRANCHES
    async with harness.platform.open_remote(harness.repo, "") as remote:
        with pytest.raises(PushRejected, match="stale info"):
            await delete_branch(own, kept, remote, expected=harness.commits[deleted])
        await delete_branch(own, deleted, remote, expected=harness.commits[deleted])
        assert await branch_head(remote, deleted) is None
        assert await branch_head(remote, kept) == harness.commits[kept]
        with pytest.raises(PushRejected):
            await delete_branch(own, deleted, remote, expected=harness.commits[deleted])


async def test_the_newest_open_pull_requests_to_a_branch_are_listed(
    harness: PlatformHarness,
) -> None:
    first, second = await harness.open(), await harness.open(BRANCHES[1])
    closed = harness.row.pulls[first.number]
    pulls = await harness.platform.open_pulls(harness.repo, "main")
    assert [pull.number for pull in pulls] == [second.number, first.number]
    assert [pull.head_commit for pull in pulls] == [harness.commits[b] for b in reversed(BRANCHES)]
    assert {pull.url for pull in pulls} == {first.url, second.url}
    closed.state = "closed"
    harness.row.pulls[second.number].base = "other"
    assert await harness.platform.open_pulls(harness.repo, "main") == []


async def test_heads_of_pull_requests_are_fetched_beside_the_copy(
    harness: PlatformHarness, tmp_path: Path
) -> None:
    copy, scratch = tmp_path / "copy.git", tmp_path / "scratch"
    scratch.mkdir()
    heads = [harness.commits[branch] for branch in BRANCHES]
    async with harness.platform.open_remote(harness.repo, "") as remote:
        await refresh_copy(remote, copy, "main")
        async with fetch_heads(remote, copy, [*heads, "1" * 40], scratch=scratch) as git_dir:
            for commit in (*heads, harness.base):
                assert await has_commit(git_dir, commit)
            assert not await has_commit(git_dir, "1" * 40)
    assert not any([await has_commit(copy, commit) for commit in heads])
    assert list(scratch.iterdir()) == []


async def test_fixes_of_open_pull_requests_are_found(
    harness: PlatformHarness, tmp_path: Path
) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"))
    copy = repositories.path(settings.repositories_path, harness.repo.repo_id)
    async with harness.platform.open_remote(harness.repo, "") as remote:
        await refresh_copy(remote, copy, "main")
    _commit_file(harness, BRANCHES[0], "requirements.txt", b"requests==2.31.0\n")
    pull = await harness.open()
    await harness.open(BRANCHES[1])
    platforms: Any = SimpleNamespace(adapter_for=lambda *_: _return(harness.platform))
    reader = OpenPullReader(None, settings, platforms)  # type: ignore[arg-type]  # for `local` only
    repo = ScannedRepo(
        id=harness.repo.repo_id,
        organization="acme",
        full_name="acme/shop",
        default_branch="main",
        head_commit=harness.base,
        connection_id="con_1",
        external_id=harness.repo.external_id,
    )
    vulnerable = frozenset({"2.25.0"})
    fix = WantedFix(("requirements.txt", "PyPI", "requests", "2.31.0"), vulnerable)
    later = WantedFix(("requirements.txt", "PyPI", "requests", "2.32.0"), vulnerable)
    other = WantedFix(("b.txt", "PyPI", "requests", "2.31.0"), vulnerable)
    for _ in range(2):
        proposed = await reader.find_proposed(repo, [fix, later, other])
        assert proposed == Proposals({fix.key: ProposingPull(pull.number, pull.url)})


async def _return(platform: Platform) -> Platform:
    return platform


def _commit_file(harness: PlatformHarness, branch: str, path: str, content: bytes) -> None:
    stream = b"commit refs/heads/%s\ncommitter A <a@b.c> 1700000000 +0000\ndata 1\nx\n" % (
        branch.encode()
    )
    stream += b"from %s\nM 100644 inline %s\ndata %d\n%s\n" % (
        harness.commits[branch].encode(),
        path.encode(),
        len(content),
        content,
    )
    subprocess.run(
        ["git", "fast-import", "--quiet", "--force"], cwd=harness.git_dir, input=stream, check=True
    )
    harness.commits[branch] = git_output("rev-parse", branch, cwd=harness.git_dir).strip()


async def test_a_connection_knows_its_account(harness: PlatformHarness) -> None:
    account = await harness.platform.check()
    is_app = harness.kind == "github-app"
    assert account.login == ("agentjobs[bot]" if is_app else harness.server.state.account)
    assert account.missing == ()
    assert account.is_own or not is_app


async def test_all_repositories_are_listed_however_many_pages_they_take(
    harness: PlatformHarness,
) -> None:
    state = harness.server.state
    for number in range(230):
        state.add_repository(f"acme/number-{number}")
    state.add_repository("acme/old", is_archived=True)
    state.add_repository("acme/.github")
    repositories = [repository async for repository in harness.platform.repositories()]
    assert len(repositories) == len({repository.external_id for repository in repositories}) == 233
    assert {repository.full_name for repository in repositories} == {
        repository.full_name for repository in state.repositories.values()
    }
    assert {repository.full_name for repository in repositories if repository.is_archived} == {
        "acme/old"
    }
    (shop,) = [repository for repository in repositories if repository.full_name == "acme/shop"]
    expected = RemoteRepository(str(harness.row.id), "acme/shop", "main")
    assert msgspec.structs.replace(shop, pushed_at=None) == expected


async def test_a_repository_is_found_after_it_was_renamed(harness: PlatformHarness) -> None:
    pull = await harness.open()
    harness.server.state.rename(harness.row, "acme/store")
    repository = await harness.platform.repository(harness.repo)
    expected = RemoteRepository(str(harness.row.id), "acme/store", "main")
    assert msgspec.structs.replace(repository, pushed_at=None) == expected
    assert (await harness.platform.pull(harness.repo, pull.number)).number == pull.number
    again = await harness.adapter.open_pull_request(harness.repo, "", harness.request())
    assert again.number == pull.number
    second = await harness.open(BRANCHES[1])
    await harness.platform.comment(harness.repo, second.number, "Still here.")
    assert len(await harness.platform.comments(harness.repo, second.number, CommentCursor())) == 1


async def test_a_repository_shows_why_it_cannot_be_connected(harness: PlatformHarness) -> None:
    state = harness.server.state
    harness.server.add_repository("acme/empty", {}, is_empty=True)
    for name, field in (("acme/empty", {}), ("acme/old", {"is_archived": True})):
        row = state.by_name(name) or state.add_repository(name, **field)
        repository = await harness.platform.repository(RepoAddress("acme", name, "r", str(row.id)))
        assert repository.is_archived == (name == "acme/old")
        assert (repository.default_branch == "") == (name == "acme/empty")
    if harness.kind != "github-app":
        row = state.add_repository("acme/read", own_role="read", is_private=False)
        repository = await harness.platform.repository(
            RepoAddress("acme", "acme/read", "r", str(row.id))
        )
        assert not repository.may_push


@pytest.mark.parametrize("external_id", ["99999999", ""])
async def test_a_missing_resource_is_not_found(harness: PlatformHarness, external_id: str) -> None:
    gone = RepoAddress("acme", "acme/gone", "repo_gone", external_id)
    platform = harness.platform
    assert (await harness.error_of(platform.repository(gone))).fault == "gone"
    assert (await harness.error_of(platform.pull(gone, 1))).fault == "gone"
    assert (await harness.error_of(platform.pull(harness.repo, 404))).fault == "gone"
    assert (await harness.error_of(platform.issue("acme/shop", 404))).fault == "gone"
    assert (await harness.error_of(platform.issue("acme/gone", 1))).fault == "gone"


async def test_a_pull_request_is_shown_as_it_is_now(harness: PlatformHarness) -> None:
    opened = await harness.open(draft=True, title="Fix <it>")
    row = harness.row.pulls[opened.number]
    now = await harness.platform.pull(harness.repo, opened.number)
    assert (now.state, now.draft, now.url) == ("open", True, opened.url)
    assert now.head_commit == harness.commits[BRANCHES[0]]
    assert "Fix <it>" in now.title
    row.state = "closed"
    assert (await harness.platform.pull(harness.repo, opened.number)).state == "closed"
    row.is_merged = True
    assert (await harness.platform.pull(harness.repo, opened.number)).state == "merged"
    existing = await harness.adapter.pull_of_branch(harness.repo, BRANCHES[0])
    assert existing is not None
    assert existing.state == "merged"


async def test_a_pull_request_closed_without_merging_is_not_opened_again(
    harness: PlatformHarness,
) -> None:
    opened = await harness.open()
    harness.row.pulls[opened.number].state = "closed"
    for is_follow_up in (False, True):
        error = await harness.error_of(harness.open(is_follow_up=is_follow_up))
        assert "was closed without merging" in str(error)
        assert error.fault == "refused"
    assert len(harness.row.pulls) == 1


async def test_a_branch_of_the_same_name_in_a_fork_is_ignored(harness: PlatformHarness) -> None:
    state = harness.server.state
    row = state.add_pull(harness.row, "Not ours", BRANCHES[0], author="eve", fork_owner="eve")
    assert await harness.adapter.pull_of_branch(harness.repo, BRANCHES[0]) is None
    opened = await harness.open()
    assert opened.number != row.number
    existing = await harness.adapter.pull_of_branch(harness.repo, BRANCHES[0])
    assert existing is not None
    assert existing.number == opened.number


async def test_a_merged_pull_request_is_reused_only_for_its_own_head(
    harness: PlatformHarness,
) -> None:
    opened = await harness.open()
    row = harness.row.pulls[opened.number]
    row.state, row.is_merged, row.head_commit = "closed", True, harness.commits[BRANCHES[0]]
    assert (await harness.open()).number == opened.number
    error = await harness.error_of(
        harness.open(is_follow_up=True, head_commit=harness.commits[BRANCHES[1]])
    )
    assert "was merged before" in str(error)


async def test_a_follow_up_as_a_draft_is_one_or_notes_why_not(harness: PlatformHarness) -> None:
    opened = await harness.open()
    again = await harness.open(is_follow_up=True, draft=True)
    assert again.number == opened.number
    assert again.draft or again.notes
    assert (await harness.platform.pull(harness.repo, opened.number)).draft == again.draft


async def test_labels_and_reviewers_are_requested_and_failures_are_notes(
    harness: PlatformHarness,
) -> None:
    state = harness.server.state
    for login in ("wanda", "mia"):
        state.add_user(login)
        harness.row.roles[login] = "write"
    harness.row.labels.append("bug")
    own = (await harness.platform.check()).login
    opened = await harness.open(
        labels=("bug", "agent jobs"), reviewers=("@wanda", "nobody-here", "mia", f"@{own}")
    )
    row = harness.row.pulls[opened.number]
    assert sorted(row.labels) == ["agent jobs", "bug"]
    assert set(row.reviewers) <= {"wanda", "mia"}
    assert row.reviewers
    assert len(opened.notes) == 1 + len({"wanda", "mia"} - set(row.reviewers))
    assert any("nobody-here" in note for note in opened.notes)


async def test_comments_are_returned_once_and_in_order(harness: PlatformHarness) -> None:
    opened = await harness.open()
    state = harness.server.state
    row = harness.row.pulls[opened.number]
    written = [state.add_comment(row, "ada", f"Nr. {at} <b>ü</b>") for at in range(130)]
    comments = await harness.platform.comments(harness.repo, opened.number, CommentCursor())
    assert [(comment.id, comment.author, comment.text) for comment in comments] == [
        (comment.id, "ada", comment.text) for comment in written
    ]
    assert all(comment.url.startswith(harness.server.url) for comment in comments)
    later = await harness.platform.comments(
        harness.repo, opened.number, CommentCursor(written[127].id)
    )
    assert [comment.id for comment in later] == [comment.id for comment in written[128:]]
    assert (
        await harness.platform.comments(harness.repo, opened.number, CommentCursor(written[-1].id))
        == []
    )


def cursor_after(comments: list[Comment]) -> CommentCursor:
    highest = {
        comment.kind: comment.id for comment in sorted(comments, key=lambda comment: comment.id)
    }
    return CommentCursor(*(highest.get(kind, 0) for kind in ("comment", "line", "review")))


async def test_line_comments_and_reviews_are_read_once(harness: PlatformHarness) -> None:
    opened = await harness.open()
    state = harness.server.state
    row = harness.row.pulls[opened.number]
    state.add_comment(row, "ada", "In general")
    review = state.add_review(row, "grace", "All in all")
    state.add_line(review, "Here", "src/a b.py", line=12)
    state.add_line(review, "There", "old.py", old_line=3)
    state.add_line(review, "Nowhere now", "src/gone.py")
    state.add_review(row, "rita")
    for login in ("rita", (await harness.platform.check()).login):
        begun = state.add_review(row, login, "Not sent yet", is_pending=True)
        state.add_line(begun, "Neither is this", "old.py", line=1)
    comments = await harness.platform.comments(harness.repo, opened.number, CommentCursor())
    # GitLab numbers comments and reviews in one sequence.
    review_kind, line_kind = ("comment",) * 2 if harness.kind == "gitlab" else ("review", "line")
    assert {
        (comment.kind, comment.author, comment.text, comment.location) for comment in comments
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
    assert await harness.platform.comments(harness.repo, opened.number, cursor) == []
    state.add_line(review, "An answer", "src/a b.py", line=12, author="ada")
    state.add_review(row, "grace", "Once more")
    later = await harness.platform.comments(harness.repo, opened.number, cursor)
    assert sorted((comment.author, comment.text) for comment in later) == [
        ("ada", "An answer"),
        ("grace", "Once more"),
    ]


async def test_without_a_cursor_only_the_newest_of_each_kind_is_returned(
    harness: PlatformHarness,
) -> None:
    opened = await harness.open()
    state = harness.server.state
    row = harness.row.pulls[opened.number]
    for at in range(60):
        state.add_line(state.add_review(row, "ada", f"text {at}"), f"line {at}", "a.py", line=1)
    comments = await harness.platform.comments(
        harness.repo, opened.number, CommentCursor(10**9, None, None)
    )
    expected = [] if harness.kind == "gitlab" else ["line 59", "text 59"]
    assert [comment.text for comment in comments] == expected
    cursor = cursor_after(comments)
    state.add_line(state.add_review(row, "ada", "new text"), "new line", "a.py", line=1)
    if expected:
        newer = await harness.platform.comments(harness.repo, opened.number, cursor)
        assert [comment.text for comment in newer] == ["new line", "new text"]


async def test_a_comment_is_posted_once(harness: PlatformHarness) -> None:
    opened = await harness.open()
    await harness.platform.comment(harness.repo, opened.number, "Done: \x00 \ud800 `x` ü")
    (comment,) = harness.row.pulls[opened.number].comments
    assert comment.text.startswith("Done: ")
    assert comment.text.endswith("`x` ü")
    (returned,) = await harness.platform.comments(harness.repo, opened.number, CommentCursor())
    assert returned.author == (await harness.platform.check()).login


async def test_write_access_depends_on_the_role(harness: PlatformHarness) -> None:
    roles = {"rita": "read", "wanda": "write", "mia": "maintain", "adam": "admin"}
    for login, role in roles.items():
        harness.server.state.add_user(login)
        harness.row.roles[login] = role  # type: ignore[assignment]
    harness.server.state.add_user("mallory")
    logins = [*roles, "mallory", "nobody-here", "renovate[bot]", "../../user"]
    may = [login for login in logins if await harness.platform.may_write(harness.repo, login)]
    assert may == ["wanda", "mia", "adam"]


async def test_an_issue_is_read_and_written_to(harness: PlatformHarness) -> None:
    state = harness.server.state
    row = state.add_issue(harness.row, "It breaks", text="When ü\n\n- a", labels=["bug", "p 1"])
    bare = state.add_issue(harness.row, "No description")
    issue = await harness.platform.issue("acme/shop", row.number)
    assert (issue.full_name, issue.number, issue.title) == ("acme/shop", row.number, "It breaks")
    assert (issue.text, issue.labels) == ("When ü\n\n- a", ("bug", "p 1"))
    assert issue.url.startswith(harness.server.url)
    assert (await harness.platform.issue("acme/shop", bare.number)).text == ""
    await harness.platform.comment_on_issue("acme/shop", row.number, "A pull request is open.")
    assert [comment.text for comment in row.comments] == ["A pull request is open."]


async def test_git_fetches_and_pushes_with_the_connections_credential(
    harness: PlatformHarness, tmp_path: Path
) -> None:
    clone = tmp_path / "clone.git"
    async with harness.adapter.open_remote(harness.repo, "") as remote:
        await run_git(remote, "clone", "--bare", "--quiet", remote.url, str(clone))
        refs = ("main:refs/heads/agentjobs/new", "main:refs/heads/kept")
        await run_git(remote, "push", "--quiet", remote.url, *refs, git_dir=clone)
    assert harness.server.git.head(harness.row, "agentjobs/new") == harness.base
    harness.row.protected.add("kept")
    moved = f"{BRANCHES[0]}:refs/heads/kept"
    async with harness.adapter.open_remote(harness.repo, "") as remote:
        with pytest.raises(GitError) as raised:
            await run_git(remote, "push", "--quiet", remote.url, moved, git_dir=clone)
    assert "Protected branch" in raised.value.stderr
    assert harness.server.git.head(harness.row, "kept") == harness.base
    assert not [secret for secret in harness.known_secrets if secret in f"{raised.value!r}"]


async def test_git_is_refused_with_a_revoked_credential(harness: PlatformHarness) -> None:
    async with harness.adapter.open_remote(harness.repo, "") as remote:
        harness.server.token = "another"
        if harness.kind == "github-app":
            harness.server.app.tokens.clear()  # type: ignore[attr-defined]
        with pytest.raises(GitError) as raised:
            await run_git(remote, "ls-remote", remote.url)
    assert is_access_denied(raised.value.stderr)


async def test_a_repository_may_have_any_name_that_the_platform_accepts(
    harness: PlatformHarness, template: Path
) -> None:
    names = ["acme/.github", "a-c-m-e/x.y_z-", "Acme/UPPER"]
    for name in [*names, "acme/deep/er/shop"] if harness.kind == "gitlab" else names:
        row = harness.server.add_repository(name)
        harness.server.git.directory(row).symlink_to(harness.git_dir)
        repo = RepoAddress("acme", name, "repo_2", str(row.id))
        assert (await harness.platform.repository(repo)).full_name == name
        opened = await harness.platform.open_pull_request(repo, "", harness.request())
        assert (await harness.platform.pull(repo, opened.number)).number == opened.number
        async with harness.platform.open_remote(repo, "") as remote:
            listed = await run_git(remote, "ls-remote", remote.url, "refs/heads/main")
        assert listed.stdout.decode().startswith(harness.base)
