"""Pull requests of the platform `local`: importing, opening, reading, merging, closing."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.local_git.history import commits_between
from agentjobs.local_git.merge import Merge, merge_into
from agentjobs.local_git.repositories import import_repository
from agentjobs.platforms.protocol import MergeMethod, PlatformError
from agentjobs.pulls.comparison import load_patch, load_proposal
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import Pull, close_pull, get_pull, list_pulls, ready_pull
from agentjobs.pulls.pushes import record_push
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem
from tests.support.git_commands import commit_files, git_output, make_repository
from tests.support.local_repository import CREDENTIAL, PUBLIC_URL, Platform, make_platform

HERE = ("acme", "acme/shop")


@pytest.fixture
async def platform(database: Database, tmp_path: Path) -> Platform:
    return await make_platform(database, tmp_path)


async def test_a_pull_request_is_a_row_with_a_number_per_repository(platform: Platform) -> None:
    first = await platform.open_pull("agentjobs/one", {"a": "1"})
    second = await platform.open_pull("agentjobs/two", {"b": "2"})
    assert (first, second) == (1, 2)
    pull = await get_pull(platform.db, *HERE, 1)
    assert (pull.state, pull.title, pull.path) == (
        "open",
        "Fix the price",
        "/acme/acme/shop/pulls/1",
    )
    assert [pull.number for pull in await list_pulls(platform.db, "acme")] == [2, 1]
    assert [pull.number for pull in await list_pulls(platform.db, *HERE)] == [2, 1]


async def test_the_address_of_a_pull_request_is_below_the_public_one(platform: Platform) -> None:
    commit = platform.propose("agentjobs/one", {"a": "1"})
    request = platform.request("agentjobs/one", commit)
    opened = await platform.adapter.open_pull_request(platform.repo, CREDENTIAL, request)
    assert opened.url == f"{PUBLIC_URL}/acme/acme/shop/pulls/1"


@pytest.mark.parametrize(
    "place",
    [("other", "acme/shop", 1), ("acme", "acme/none", 1), (*HERE, 0), (*HERE, 7), (*HERE, 2**80)],
)
async def test_a_missing_pull_request_is_not_found(
    platform: Platform, place: tuple[str, str, int]
) -> None:
    await platform.open_pull("agentjobs/one", {"a": "1"})
    with pytest.raises(Problem) as refused:
        await get_pull(platform.db, *place)
    assert refused.value.code == "pull_not_found"


async def test_listing_an_unknown_repository_says_so(platform: Platform) -> None:
    with pytest.raises(Problem) as refused:
        await list_pulls(platform.db, "acme", "acme/none")
    assert refused.value.code == "repo_not_found"


async def test_a_proposal_has_the_commits_and_files_since_the_common_ancestor(
    platform: Platform,
) -> None:
    await platform.open_pull("agentjobs/one", {"src/shop.py": "PRICE = 3\n\nTAX = 2\n"})
    platform.propose("main", {"unrelated.txt": "later work on main"})
    pull = await get_pull(platform.db, *HERE, 1)
    proposal = await load_proposal(platform.settings.repositories_path, pull)
    assert [commit.subject for commit in proposal.commits] == ["change"]
    assert [file.path for file in proposal.diff.files] == ["src/shop.py"]
    assert (proposal.diff.additions, proposal.diff.deletions) == (1, 1)
    patch = await load_patch(platform.settings.repositories_path, pull)
    assert "-PRICE = 1\n+PRICE = 3\n" in patch
    assert "unrelated" not in patch


async def test_a_huge_change_is_cut_and_says_so(platform: Platform) -> None:
    await platform.open_pull("agentjobs/one", {f"{n:03}.txt": "line\n" * 20_000 for n in range(40)})
    proposal = await load_proposal(
        platform.settings.repositories_path, await get_pull(platform.db, *HERE, 1)
    )
    assert not proposal.diff.complete
    assert proposal.diff.changed_files == 40
    assert [file.additions for file in proposal.diff.files] == [20_000] * 40
    assert proposal.diff.additions == 800_000
    assert sum(len(file.lines) for file in proposal.diff.files) <= 20_000


async def test_merging_creates_a_merge_commit_by_the_service(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"src/shop.py": "PRICE = 3\n\nTAX = 2\n"})
    moved = platform.propose("main", {"other.txt": "main moved on"})
    pull = await merge_pull(platform.db, platform.settings, *HERE, number)
    assert pull.state == "merged"
    assert pull.merge_commit == platform.head("main")
    parents = git_output("log", "-1", "--format=%P", "main", cwd=platform.git_dir).split()
    assert parents == [moved, pull.head_commit]
    commit_line = git_output("log", "-1", "--format=%an <%ae>|%cn|%s", "main", cwd=platform.git_dir)
    assert (
        commit_line
        == "agentjobs <agentjobs@localhost>|agentjobs|Merge pull request #1: Fix the price"
    )
    assert "PRICE = 3" in git_output("show", "main:src/shop.py", cwd=platform.git_dir)
    assert "moved on" in git_output("show", "main:other.txt", cwd=platform.git_dir)


async def test_a_merge_into_the_default_branch_asks_for_a_new_index(platform: Platform) -> None:
    with platform.db.changes.listen("index") as woken:
        number = await platform.open_pull("agentjobs/one", {"a": "1"})
        await merge_pull(platform.db, platform.settings, *HERE, number)
        assert await woken.wait(30)
    row = await platform.repo_row()
    assert row["head_commit"] == platform.head("main")
    assert row["index_due_at"] is not None


async def test_a_merged_pull_request_still_shows_what_it_proposed(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1\n"})
    pull = await merge_pull(platform.db, platform.settings, *HERE, number)
    proposal = await load_proposal(platform.settings.repositories_path, pull)
    assert [file.path for file in proposal.diff.files] == ["a"]
    assert len(proposal.commits) == 1


async def test_conflicts_are_named_and_change_nothing(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"src/shop.py": "PRICE = 3\n", "ok": "1"})
    main = platform.propose("main", {"src/shop.py": "PRICE = 4\n"})
    with pytest.raises(Problem) as refused:
        await merge_pull(platform.db, platform.settings, *HERE, number)
    assert refused.value.code == "pull_not_mergeable"
    assert refused.value.details == {"files": ["src/shop.py"]}
    assert "src/shop.py" in refused.value.message
    assert platform.head("main") == main
    assert (await get_pull(platform.db, *HERE, number)).state == "open"


async def test_many_conflicts_are_not_all_named(platform: Platform) -> None:
    names = [f"{number:04}" for number in range(1_005)]
    number = await platform.open_pull("agentjobs/one", dict.fromkeys(names, "one"))
    platform.propose("main", dict.fromkeys(names, "another"))
    with pytest.raises(Problem) as refused:
        await merge_pull(platform.db, platform.settings, *HERE, number)
    assert refused.value.message.endswith("in: " + ", ".join(names[:10]) + " and 995 more.")
    assert refused.value.details == {"files": names[:1_000]}


async def test_a_merge_whose_end_was_lost_is_finished_and_not_repeated(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    merged = (await merge_pull(platform.db, platform.settings, *HERE, number)).merge_commit
    await platform.db.transact(_reopen)
    platform.propose("main", {"later": "work"})
    later = platform.head("main")
    repeated = await merge_pull(platform.db, platform.settings, *HERE, number)
    assert (repeated.state, repeated.merge_commit) == ("merged", merged)
    assert platform.head("main") == later


async def test_a_pull_request_that_was_closed_before_its_merge_began_stays_closed(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    before = platform.head("main")

    @asynccontextmanager
    async def close_while_waiting(db: Database, repo_id: str) -> AsyncIterator[None]:
        await close_pull(db, *HERE, number)
        async with changing_repository(db, repo_id):
            yield

    monkeypatch.setattr("agentjobs.pulls.merge.changing_repository", close_while_waiting)
    with pytest.raises(Problem, match="already closed"):
        await merge_pull(platform.db, platform.settings, *HERE, number)
    assert platform.head("main") == before
    assert (await get_pull(platform.db, *HERE, number)).state == "closed"


async def test_a_pull_request_that_was_closed_during_its_merge_is_only_merged(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})

    async def close_after(git_dir: Path, change: Merge) -> str:
        commit = await merge_into(git_dir, change)
        await close_pull(platform.db, *HERE, number)
        return commit

    monkeypatch.setattr("agentjobs.pulls.merge.merge_into", close_after)
    pull = await merge_pull(platform.db, platform.settings, *HERE, number)
    assert pull.state == "merged"
    assert pull.merged_at is not None
    assert pull.closed_at is None


async def test_branches_without_common_history_are_refused(platform: Platform) -> None:
    git_output("checkout", "--quiet", "--orphan", "agentjobs/one", cwd=platform.source)
    commit = commit_files(platform.source, {"alone": "1"}, "alone")
    git_output("push", "-q", str(platform.git_dir), "agentjobs/one", cwd=platform.source)
    request = platform.request("agentjobs/one", commit)
    await platform.adapter.open_pull_request(platform.repo, CREDENTIAL, request)
    with pytest.raises(Problem) as refused:
        await merge_pull(platform.db, platform.settings, *HERE, 1)
    assert refused.value.code == "pull_not_mergeable"


def add_commit(platform: Platform, branch: str, files: dict[str, str]) -> str:
    """On top of the branch."""
    git_output("checkout", "--quiet", branch, cwd=platform.source)
    commit = commit_files(platform.source, files, "More\n\nIn detail.")
    git_output("push", "--quiet", str(platform.git_dir), branch, cwd=platform.source)
    return commit


async def test_squashing_creates_one_commit_with_the_changes(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    add_commit(platform, "agentjobs/one", {"b": "2"})
    moved = platform.propose("main", {"other.txt": "main moved on"})
    pull = await merge_pull(platform.db, platform.settings, *HERE, number, method="squash")
    assert (pull.state, pull.merge_commit) == ("merged", platform.head("main"))
    shown = git_output("log", "-1", "--format=%P|%an|%s", "main", cwd=platform.git_dir)
    assert shown == f"{moved}|agentjobs|Fix the price (#1)"
    files = git_output("ls-tree", "--name-only", "main", cwd=platform.git_dir).split()
    assert {"a", "b", "other.txt"} <= set(files)


async def test_rebasing_keeps_each_commit_and_its_author(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    head = add_commit(platform, "agentjobs/one", {"b": "2"})
    moved = platform.propose("main", {"other.txt": "main moved on"})
    pull = await merge_pull(platform.db, platform.settings, *HERE, number, method="rebase")
    assert (pull.state, pull.merge_commit) == ("merged", platform.head("main"))
    fields = "--format=%an|%ae|%ad|%B"
    before = git_output("log", "-2", fields, head, cwd=platform.git_dir)
    assert git_output("log", "-2", fields, "main", cwd=platform.git_dir) == before
    assert git_output("rev-parse", "main~2", cwd=platform.git_dir) == moved
    committers = git_output("log", "-2", "--format=%cn", "main", cwd=platform.git_dir).split()
    assert committers == ["agentjobs", "agentjobs"]
    files = git_output("ls-tree", "--name-only", "main", cwd=platform.git_dir).split()
    assert {"a", "b", "other.txt"} <= set(files)


@pytest.mark.parametrize("method", ["squash", "rebase"])
async def test_what_was_proposed_is_kept_although_no_branch_contains_it(
    platform: Platform, method: MergeMethod
) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1\n"})
    platform.propose("main", {"other.txt": "main moved on"})
    pull = await merge_pull(platform.db, platform.settings, *HERE, number, method=method)
    branches = git_output("for-each-ref", "refs/heads/agentjobs", cwd=platform.git_dir)
    assert branches == ""
    git_output("gc", "--quiet", "--prune=now", cwd=platform.git_dir)
    proposal = await load_proposal(platform.settings.repositories_path, pull)
    assert [file.path for file in proposal.diff.files] == ["a"]


@pytest.mark.parametrize("method", ["squash", "rebase"])
async def test_conflicts_with_any_method_are_named_and_change_nothing(
    platform: Platform, method: MergeMethod
) -> None:
    number = await platform.open_pull("agentjobs/one", {"src/shop.py": "PRICE = 3\n", "ok": "1"})
    main = platform.propose("main", {"src/shop.py": "PRICE = 4\n"})
    with pytest.raises(Problem) as refused:
        await merge_pull(platform.db, platform.settings, *HERE, number, method=method)
    assert refused.value.code == "pull_not_mergeable"
    assert refused.value.details == {"files": ["src/shop.py"]}
    assert platform.head("main") == main


@pytest.mark.parametrize("method", ["squash", "rebase"])
async def test_a_lost_squash_or_rebase_is_finished_and_not_repeated(
    platform: Platform, method: MergeMethod
) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    first = await merge_pull(platform.db, platform.settings, *HERE, number, method=method)
    await platform.db.transact(_reopen)
    # The branch may be gone already; the row has its head.
    later = (
        platform.propose("main", {"later": "work"}) if method == "squash" else first.merge_commit
    )
    repeated = await merge_pull(platform.db, platform.settings, *HERE, number, method=method)
    assert (repeated.state, repeated.merge_commit) == ("merged", first.merge_commit)
    assert platform.head("main") == later


async def test_commits_that_are_not_in_one_line_are_not_rebased(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    platform.propose("main", {"other.txt": "main moved on"})
    git_output("checkout", "--quiet", "agentjobs/one", cwd=platform.source)
    git_output("merge", "--quiet", "--no-edit", "main", cwd=platform.source)
    git_output("push", "-q", str(platform.git_dir), "agentjobs/one", cwd=platform.source)
    platform.propose("main", {"more.txt": "and on"})
    with pytest.raises(Problem, match="merge or squash it") as refused:
        await merge_pull(platform.db, platform.settings, *HERE, number, method="rebase")
    assert refused.value.code == "pull_not_mergeable"


async def test_only_the_expected_head_is_merged(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    reviewed = platform.head("agentjobs/one")
    newer = platform.propose("agentjobs/one", {"b": "2"})
    here = (platform.db, platform.settings, *HERE, number)
    with pytest.raises(Problem) as refused:
        await merge_pull(*here, head_commit=reviewed)
    assert (refused.value.code, refused.value.details) == ("pull_changed", {"head_commit": newer})
    assert (await merge_pull(*here, head_commit=newer)).state == "merged"


async def test_a_draft_is_merged_only_once_it_is_ready(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"}, draft=True)
    with pytest.raises(Problem) as refused:
        await merge_pull(platform.db, platform.settings, *HERE, number)
    assert refused.value.code == "pull_not_mergeable"
    assert not (await ready_pull(platform.db, *HERE, number)).draft
    assert (await merge_pull(platform.db, platform.settings, *HERE, number)).state == "merged"


async def test_marking_ready_runs_the_callback_once_in_the_same_transaction(
    platform: Platform,
) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"}, draft=True)
    numbers: list[int] = []

    async def tell(tx: Transaction, pull: Pull) -> None:
        await tx.fetch_one("SELECT 1")
        numbers.append(pull.number)

    for _ in range(2):
        await ready_pull(platform.db, *HERE, number, also=tell)
    assert numbers == [number]


async def test_a_closed_pull_request_stays_closed(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    closed = await close_pull(platform.db, *HERE, number)
    assert closed.state == "closed"
    assert closed.closed_at is not None
    for repeated in (
        close_pull(platform.db, *HERE, number),
        ready_pull(platform.db, *HERE, number),
        merge_pull(platform.db, platform.settings, *HERE, number),
    ):
        with pytest.raises(Problem) as refused:
            await repeated
        assert refused.value.code == "pull_not_open"


async def test_a_closed_pull_request_is_not_adopted(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    await close_pull(platform.db, *HERE, number)
    with pytest.raises(PlatformError, match=f"Pull request {number} .* was closed"):
        await platform.open_pull("agentjobs/one", {"a": "2"})
    assert len(await list_pulls(platform.db, *HERE)) == 1


async def test_a_merged_pull_request_is_adopted(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    merged = await merge_pull(platform.db, platform.settings, *HERE, number)
    request = platform.request("agentjobs/one", merged.head_commit)
    adopted = await platform.adapter.open_pull_request(platform.repo, CREDENTIAL, request)
    assert adopted.number == number
    assert (await get_pull(platform.db, *HERE, number)).state == "merged"


async def test_only_so_much_of_the_commits_messages_is_read(platform: Platform) -> None:
    platform.propose("agentjobs/one", {"a": "1"}, message="older\n\n" + "x" * 3_000)
    git_output("commit", "--allow-empty", "-qm", "newer\n\nshort", cwd=platform.source)
    head = git_output("rev-parse", "HEAD", cwd=platform.source)
    git_output("push", "-q", str(platform.git_dir), "agentjobs/one", cwd=platform.source)
    base = platform.head()
    commits = await commits_between(platform.git_dir, base, head)
    assert [commit.subject for commit in commits] == ["older", "newer"]
    cut = await commits_between(platform.git_dir, base, head, max_bytes=1_000)
    assert [commit.subject for commit in cut] == ["older", "newer"]
    assert 0 < len(cut[0].body) < 1_000
    assert cut[1].body == "short"
    newest = await commits_between(platform.git_dir, base, head, max_bytes=150)
    assert [commit.subject for commit in newest] == ["newer"]


async def test_adopting_takes_over_the_commit_that_was_pushed(platform: Platform) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    assert await platform.open_pull("agentjobs/one", {"a": "2"}) == number
    pull = await get_pull(platform.db, *HERE, number)
    assert pull.head_commit == platform.head("agentjobs/one")


async def test_a_recorded_push_moves_pull_requests_and_the_default_branch(
    platform: Platform,
) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    commit = platform.propose("agentjobs/one", {"a": "2"})
    main = platform.propose("main", {"b": "3"})
    data = platform.settings.repositories_path
    await record_push(platform.db, data, platform.repo.repo_id, ["refs/heads/elsewhere"])
    assert (await platform.repo_row())["head_commit"] != main
    await record_push(
        platform.db, data, platform.repo.repo_id, ["refs/heads/main", "refs/heads/agentjobs/one"]
    )
    assert (await platform.repo_row())["head_commit"] == main
    assert (await get_pull(platform.db, *HERE, number)).head_commit == commit


async def test_an_error_says_where_the_files_of_a_repository_must_be(
    platform: Platform,
) -> None:
    number = await platform.open_pull("agentjobs/one", {"a": "1"})
    platform.git_dir.rename(platform.git_dir.with_suffix(".moved"))
    with pytest.raises(Problem) as refused:
        await merge_pull(platform.db, platform.settings, *HERE, number)
    assert "agentjobs serve" in refused.value.message


async def test_an_import_brings_history_branches_and_tags_and_nothing_else(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source dir", {"a": "1"})
    commit_files(source, {"a": "2"}, "second")
    git_output("tag", "v1", cwd=source)
    git_output("branch", "side", "HEAD~1", cwd=source)
    git_output("update-ref", "refs/notes/secret", "HEAD", cwd=source)
    git_output("config", "core.fsmonitor", "touch /tmp/planted", cwd=source)
    (source / ".git" / "hooks" / "post-update").write_text("#!/bin/sh\nexit 1\n")
    imported = await import_repository(str(source), tmp_path / "git" / "repo_1.git")
    target = tmp_path / "git" / "repo_1.git"
    assert imported.default_branch == "main"
    assert imported.head_commit == git_output("rev-parse", "main", cwd=source)
    refs = git_output("for-each-ref", "--format=%(refname)", cwd=target).split()
    assert refs == ["refs/heads/main", "refs/heads/side", "refs/tags/v1"]
    assert git_output("rev-list", "--count", "main", cwd=target) == "2"
    assert not (target / "hooks").exists()
    assert "fsmonitor" not in (target / "config").read_text()
    assert git_output("fsck", "--full", cwd=target) == ""


async def test_a_bare_repository_can_be_imported_too(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source")
    git_output("clone", "-q", "--bare", str(source), str(tmp_path / "bare.git"), cwd=tmp_path)
    imported = await import_repository(str(tmp_path / "bare.git"), tmp_path / "git" / "r.git")
    assert imported.default_branch == "main"


async def test_the_head_of_the_source_becomes_the_default_branch(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source")
    git_output("checkout", "-q", "-b", "weird/näme", cwd=source)
    imported = await import_repository(str(source), tmp_path / "git" / "r.git")
    assert imported.default_branch == "weird/näme"
    git_output("checkout", "-q", "--detach", cwd=source)
    imported = await import_repository(str(source), tmp_path / "git" / "s.git")
    assert imported.default_branch == "main"


async def test_a_repository_of_another_user_can_be_imported(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source")
    if os.geteuid() == 0:
        # Only root can give it away; everybody else is the owner here, which must work as well.
        for place in (source, *source.rglob("*")):
            os.chown(place, 12_345, 12_345, follow_symlinks=False)
    imported = await import_repository(str(source), tmp_path / "git" / "r.git")
    assert imported.default_branch == "main"


def _plain_directory(place: Path) -> str:
    (place / "plain").mkdir()
    return str(place / "plain")


def _empty_repository(place: Path) -> str:
    git_output("init", "-q", "empty", cwd=place)
    return str(place / "empty")


def _shallow_clone(place: Path) -> str:
    source = make_repository(place / "deep")
    commit_files(source, {"a": "2"}, "second")
    git_output("clone", "-q", "--depth=1", source.as_uri(), "shallow", cwd=place)
    return str(place / "shallow")


def _missing(place: Path) -> str:
    return str(place / "missing")


def _option(place: Path) -> str:
    return "--upload-pack=touch /tmp/planted"


def _other_scheme(place: Path) -> str:
    return "ext::sh -c 'touch /tmp/planted'"


def _ssh(place: Path) -> str:
    return "ssh://-oProxyCommand=touch/x"


@pytest.mark.parametrize(
    ("source_in", "code"),
    [
        (_plain_directory, "repo_unavailable"),
        (_empty_repository, "repo_empty"),
        (_shallow_clone, "repo_unavailable"),
        (_missing, "repo_unavailable"),
        (_option, "repo_unavailable"),
        (_other_scheme, "repo_unavailable"),
        (_ssh, "repo_unavailable"),
    ],
)
async def test_a_failed_import_is_refused_and_leaves_nothing(
    tmp_path: Path, source_in: Callable[[Path], str], code: str
) -> None:
    source = source_in(tmp_path)
    with pytest.raises(Problem) as refused:
        await import_repository(source, tmp_path / "git" / "r.git")
    assert refused.value.code == code
    assert list(tmp_path.glob("git/*")) == []
    assert not Path("/tmp/planted").exists()


async def test_a_refused_address_does_not_repeat_its_password(tmp_path: Path) -> None:
    with pytest.raises(Problem) as refused:
        await import_repository("http://me:s3cret@127.0.0.1:1/x.git", tmp_path / "git" / "r.git")
    assert "s3cret" not in refused.value.message


async def _reopen(tx: Transaction) -> None:
    await tx.execute("UPDATE pulls SET state = 'open', merge_commit = NULL, merged_at = NULL")
