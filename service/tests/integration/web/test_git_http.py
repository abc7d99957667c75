"""Smart HTTP with real git clients: clone, fetch, push and refusals."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.store.opening import open_database
from tests.support.git_commands import commit_files, git_output
from tests.support.git_server import GitServer, serving
from tests.support.local_repository import make_platform

BRANCH = "agentjobs/fixer/0123456789ab"


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[GitServer]:
    db = await open_database(sqlite_url, migrate=False)
    async with serving(await make_platform(db, tmp_path), tmp_path) as running:
        yield running
    await db.close()


async def test_a_key_clones_with_the_whole_history(server: GitServer) -> None:
    clone = await server.clone(await server.platform.key())
    assert (clone / "src/shop.py").read_text().startswith("PRICE = 1")
    assert git_output("rev-parse", "HEAD", cwd=clone) == server.platform.head()


@pytest.mark.parametrize("version", ["0", "1", "2"])
async def test_every_version_of_the_protocol_is_supported(server: GitServer, version: str) -> None:
    clone = await server.clone(
        await server.platform.key(), f"v{version}", "-c", f"protocol.version={version}"
    )
    assert (clone / "README.md").is_file()


async def test_a_shallow_clone_can_be_deepened(server: GitServer) -> None:
    server.platform.propose("main", {"a": "2"})
    clone = await server.clone(await server.platform.key(), "shallow", "--depth=1")
    assert git_output("rev-list", "--count", "HEAD", cwd=clone) == "1"
    process = await server.git("fetch", "-q", "--unshallow", cwd=clone)
    assert process.exit_code == 0, process.output
    assert git_output("rev-list", "--count", "HEAD", cwd=clone) == "2"


async def test_a_bearer_token_is_accepted(server: GitServer) -> None:
    key = await server.platform.key()
    header = f"http.extraHeader=Authorization: Bearer {key}"
    process = await server.git("-c", header, "ls-remote", server.repository())
    assert process.exit_code == 0, process.output
    assert "refs/heads/main" in process.output


async def test_without_a_key_nothing_is_shown(server: GitServer) -> None:
    process = await server.git("ls-remote", server.repository())
    assert process.exit_code != 0
    assert "could not read Username" in process.output
    process = await server.git("ls-remote", server.repository("ajk_wrong"))
    assert process.exit_code != 0
    assert "Authentication failed" in process.output


async def test_a_key_without_git_write_may_not_push(server: GitServer) -> None:
    clone = await server.clone(await server.platform.key())
    before = server.platform.head()
    commit_files(clone, {"new.txt": "1"}, "pushed")
    process = await server.git("push", "origin", "main", cwd=clone)
    assert process.exit_code != 0
    assert "403" in process.output
    assert server.platform.head() == before


async def test_a_push_creates_and_deletes_branches_and_tags(server: GitServer) -> None:
    clone = await server.clone(await server.platform.key(git_write=True))
    git_output("tag", "v1", cwd=clone)
    process = await server.git("push", "origin", "HEAD:refs/heads/feature", "v1", cwd=clone)
    assert process.exit_code == 0, process.output
    assert server.platform.head("feature") == server.platform.head("v1")
    process = await server.git("push", "origin", ":feature", cwd=clone)
    assert process.exit_code == 0, process.output
    process = await server.git("push", "origin", ":main", cwd=clone)
    assert "refusing to delete the current branch" in process.output


@pytest.mark.parametrize("ref", ["refs/notes/x", "refs/pull/1/head", "refs/x"])
async def test_only_branches_and_tags_can_be_pushed_and_git_says_why(
    server: GitServer, ref: str
) -> None:
    clone = await server.clone(await server.platform.key(git_write=True))
    commit_files(clone, {"new.txt": "1"}, "pushed")
    process = await server.git("push", "origin", "HEAD:refs/heads/fine", f"+HEAD:{ref}", cwd=clone)
    assert process.exit_code != 0
    assert "only branches and tags can be pushed" in process.output
    assert "rejected together with the other updates" in process.output
    assert git_output("for-each-ref", "--format=%(refname)", cwd=server.platform.git_dir) == (
        "refs/heads/main"
    )


async def test_a_branch_of_a_thousand_directories_cannot_be_pushed(server: GitServer) -> None:
    clone = await server.clone(await server.platform.key(git_write=True))
    name = "/".join(["n"] * 1_000)
    process = await server.git("push", "origin", f"HEAD:refs/heads/{name}", cwd=clone)
    assert process.exit_code != 0
    assert "its name has more than 1000 characters" in process.output


@pytest.mark.parametrize(
    "refspec",
    [
        "HEAD:refs/heads/main",
        "HEAD:refs/heads/agentjobs/fixer/another",
        f"HEAD:refs/heads/{BRANCH}/below",
        f"HEAD:refs/tags/{BRANCH}",
        f"HEAD:refs/heads/{BRANCH.upper()}",
    ],
)
async def test_a_job_cannot_write_another_ref(server: GitServer, refspec: str) -> None:
    clone = await server.clone(await server.platform.job_credential(BRANCH))
    commit_files(clone, {"new.txt": "1"}, "work")
    process = await server.git("push", "--force", "origin", refspec, cwd=clone)
    assert process.exit_code != 0
    assert f"this job may write only refs/heads/{BRANCH}" in process.output
    refs = git_output("for-each-ref", "--format=%(refname)", cwd=server.platform.git_dir)
    assert refs == "refs/heads/main"


async def test_a_job_cannot_hide_another_ref_behind_its_own(server: GitServer) -> None:
    clone = await server.clone(await server.platform.job_credential(BRANCH))
    commit_files(clone, {"new.txt": "1"}, "work")
    refs = (f"HEAD:refs/heads/{BRANCH}", "HEAD:refs/heads/main")
    process = await server.git("push", "origin", *refs, cwd=clone)
    assert process.exit_code != 0
    refs_now = git_output("for-each-ref", "--format=%(refname)", cwd=server.platform.git_dir)
    assert refs_now == "refs/heads/main"


async def test_a_job_may_not_delete_its_branch(server: GitServer) -> None:
    server.platform.propose(BRANCH, {"a": "1"})
    clone = await server.clone(await server.platform.job_credential(BRANCH))
    process = await server.git("push", "origin", f":refs/heads/{BRANCH}", cwd=clone)
    assert "a job may not delete its branch" in process.output
    assert server.platform.head(BRANCH)


async def test_a_large_push_is_streamed_in_chunks(server: GitServer) -> None:
    clone = await server.clone(await server.platform.key(git_write=True))
    content = os.urandom(3_000_000)
    commit = commit_files(clone, {"large.bin": content}, "large")
    # A buffer smaller than the pack makes git send it chunked.
    process = await server.git("-c", "http.postBuffer=65536", "push", "origin", "main", cwd=clone)
    assert process.exit_code == 0, process.output
    assert any(headers.get("transfer-encoding") == "chunked" for headers in server.request_headers)
    assert server.platform.head() == commit
    repeated = await server.clone(await server.platform.key(), "again")
    assert (repeated / "large.bin").read_bytes() == content


async def test_a_compressed_negotiation_is_accepted(server: GitServer) -> None:
    clone = await server.clone(await server.platform.key(git_write=True))
    # These commits are newer than the server's: the client offers them before a common commit.
    stream = b"".join(
        b"commit refs/heads/only-here-%d\ncommitter A <a@b> %d +0000\ndata 1\nx\n"
        % (number, 2_000_000_000 + number)
        for number in range(3_000)
    )
    (server.directory / "stream").write_bytes(stream)
    with (server.directory / "stream").open("rb") as stdin:
        fast_import = await asyncio.create_subprocess_exec(
            "git", "fast-import", "--quiet", cwd=clone, stdin=stdin
        )
        assert await fast_import.wait() == 0
    server.platform.propose("main", {"news": "1"})
    process = await server.git("-c", "protocol.version=0", "fetch", "origin", cwd=clone)
    assert process.exit_code == 0, process.output
    assert any(headers.get("content-encoding") == "gzip" for headers in server.request_headers)
    assert git_output("rev-parse", "origin/main", cwd=clone) == server.platform.head()


async def test_many_clones_at_once_are_all_served(server: GitServer) -> None:
    key = await server.platform.key()
    clones = await asyncio.gather(*(server.clone(key, f"clone-{n}") for n in range(12)))
    assert all((clone / "README.md").is_file() for clone in clones)


async def test_broken_objects_are_refused(server: GitServer) -> None:
    clone = await server.clone(await server.platform.key(git_write=True))
    (server.directory / "bad").write_text(
        f"tree {git_output('rev-parse', 'HEAD^{tree}', cwd=clone)}\nauthor nobody\n\nx\n"
    )
    bad = git_output(
        "hash-object", "-t", "commit", "-w", "--literally", str(server.directory / "bad"), cwd=clone
    )
    process = await server.git("push", "origin", f"{bad}:refs/heads/bad", cwd=clone)
    assert process.exit_code != 0
    assert server.platform.git_dir.joinpath("refs/heads/bad").exists() is False
