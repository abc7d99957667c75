"""A push reads only the refs it needs, however many branches a repository has."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from agentjobs.store.database import Transaction
from agentjobs.store.opening import open_database
from tests.support.git_commands import commit_files, git_output
from tests.support.git_server import GitServer, serving
from tests.support.local_repository import make_platform

BRANCH = "agentjobs/fixer/0123456789ab"
MISSING = "1234567890" * 4


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[GitServer]:
    db = await open_database(sqlite_url, migrate=False)
    async with serving(await make_platform(db, tmp_path), tmp_path) as running:
        yield running
    await db.close()


async def _job(server: GitServer, base_commit: str, override: str = "{}") -> str:
    credential = await server.platform.job_credential(BRANCH)

    async def update(tx: Transaction) -> None:
        await tx.execute(
            "UPDATE jobs SET base_commit = :base, config_override = :override",
            base=base_commit,
            override=override,
        )

    await server.platform.db.transact(update)
    return credential


def _add_branches(server: GitServer, *names: str) -> None:
    head = server.platform.head()
    for name in names:
        git_output("update-ref", f"refs/heads/{name}", head, cwd=server.platform.git_dir)


async def _advertised(server: GitServer, token: str) -> list[str]:
    async with httpx.AsyncClient() as client:
        response = await client.get(
            f"{server.repository()}/info/refs?service=git-receive-pack", auth=("me", token)
        )
    assert response.status_code == 200, response.text
    lines = response.text.replace("0000", "\n", 1).splitlines()[1:]
    return sorted(line.split("\0")[0].split(" ")[-1] for line in lines if " " in line)


async def test_a_job_is_shown_its_own_branch_and_what_it_started_from(server: GitServer) -> None:
    _add_branches(server, "agentjobs/fixer/other", "release", "feature", BRANCH)
    base = server.platform.head()
    credential = await _job(server, base, '{"base_branch": "release"}')
    server.platform.propose("main", {"later.txt": "1"})
    server.platform.propose("release", {"later.txt": "2"})
    server.platform.propose(BRANCH, {"later.txt": "3"})
    heads = ["refs/heads/agentjobs/fixer/0123456789ab", "refs/heads/main", "refs/heads/release"]
    assert await _advertised(server, credential) == [".have", *heads]
    key = await server.platform.key(git_write=True)
    assert len(await _advertised(server, key)) == 5


async def test_a_job_sends_its_own_objects_when_the_base_branch_has_moved(
    server: GitServer,
) -> None:
    for number in range(5):
        server.platform.propose("main", {f"{number}.txt": "1"})
    base = server.platform.head()
    credential = await _job(server, base)
    clone = await server.clone(credential)
    server.platform.propose("main", {"later.txt": "1"})
    commit_files(clone, {"new.txt": "1"}, "of the job")
    pushed = await server.git(
        "push", "--progress", server.repository(credential), f"HEAD:refs/heads/{BRANCH}", cwd=clone
    )
    assert pushed.exit_code == 0, pushed.output
    assert "Enumerating objects: 3, done." in pushed.output
    assert server.platform.head(BRANCH) == git_output("rev-parse", "HEAD", cwd=clone)


@pytest.mark.parametrize("is_job", [True, False])
async def test_branches_of_other_jobs_are_not_read(server: GitServer, is_job: bool) -> None:
    credential = await _job(server, server.platform.head())
    clone = await server.clone(credential)
    # git refuses a push when it reads a ref whose commit is missing.
    packed = server.platform.git_dir / "packed-refs"
    header, *refs = packed.read_text().splitlines()
    packed.write_text("\n".join([header, f"{MISSING} refs/heads/agentjobs/other", *refs, ""]))
    commit_files(clone, {"new.txt": "1"}, "new")
    token, branch = (credential, BRANCH)
    if not is_job:
        token, branch = await server.platform.key(git_write=True), "main"
    pushed = await server.git(
        "push", server.repository(token), f"HEAD:refs/heads/{branch}", cwd=clone
    )
    assert pushed.exit_code == 0, pushed.output


async def test_a_person_may_update_the_branch_of_a_job_and_many_branches_at_once(
    server: GitServer,
) -> None:
    _add_branches(server, BRANCH)
    clone = await server.clone(await server.platform.key(git_write=True))
    commit_files(clone, {"new.txt": "1"}, "new")
    many = [f"HEAD:refs/heads/many/{number}" for number in range(600)]
    for refspecs in ([f"HEAD:refs/heads/{BRANCH}"], many):
        pushed = await server.git("push", "-q", "origin", *refspecs, cwd=clone)
        assert pushed.exit_code == 0, pushed.output
    assert server.platform.head(BRANCH) == server.platform.head("many/599")
