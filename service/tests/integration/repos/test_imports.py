"""Imports over https, with real git and a real server behind the outbound guard."""

import asyncio
import base64
import logging
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from agentjobs.fleet.repositories_directory import RepositoriesDirectory
from agentjobs.local_git import repositories
from agentjobs.organizations.audit import Actor, AuditFilter, acting_as, list_entries
from agentjobs.organizations.organizations import Organization, create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.repos.disk_quota import RepositoryQuota
from agentjobs.repos.imports import imports, rows
from agentjobs.repos.imports.imports import Imports
from agentjobs.repos.imports.rows import ImportView, list_imports
from agentjobs.repos.queries import find_repo, list_repos
from agentjobs.store.contact import Contact
from agentjobs.store.database import Database, Transaction
from agentjobs.store.opening import open_database
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings, load
from tests.support.git_commands import git_output, make_repository
from tests.support.git_server import until
from tests.support.https_git_server import HttpsOrigin, https_origin, silent_server
from tests.support.web_server import web_server

MIB = 1024**2
TOKEN = "s3cret-token"
ADA = Actor("user", "Ada", "usr_1", "192.0.2.1")


@dataclass
class Setup:
    """An organization `acme` and what imports need."""

    db: Database
    settings: Settings
    acme: Organization
    origin: HttpsOrigin

    def imports(self, *allowed: str, **options: object) -> Imports:
        settings = msgspec.structs.replace(self.settings, egress_allow=list(allowed))
        arguments = {"certificates": self.origin.authorities, **options}
        directory = RepositoriesDirectory(self.db, settings)
        quota = RepositoryQuota(self.db, settings)
        return Imports(self.db, settings, directory, quota, **arguments)  # type: ignore[arg-type] # options vary by test

    async def wait_until_idle(self) -> list[ImportView]:
        """Wait until no import is running, and return the remaining rows."""
        with self.db.changes.listen("index") as signal:
            while any(
                view.state == "running" for view in await list_imports(self.db, self.acme.id)
            ):
                assert await signal.wait(60)
        return await list_imports(self.db, self.acme.id)

    async def failure(self, importing: Imports, address: str, **given: str) -> str:
        """Import the URL, assert that it fails without leftovers, and return the message."""
        try:
            await importing.start(self.acme, address, **given)
            (failed,) = await self.wait_until_idle()
        finally:
            await importing.close()
        assert failed.state == "failed"
        assert await list_repos(self.db, self.acme.id) == []
        assert self.files() == []
        return failed.message

    async def messages(self) -> dict[str, str]:
        return {view.id: view.message for view in await list_imports(self.db, self.acme.id)}

    async def end_leases(self) -> None:
        """As if the process that runs the imports had been killed."""

        async def update(tx: Transaction) -> None:
            await tx.execute("UPDATE repo_imports SET lease_until = 1")

        await self.db.transact(update)

    def files(self) -> list[str]:
        root = self.settings.repositories_path
        return sorted(path.name for path in root.iterdir()) if root.is_dir() else []


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[HttpsOrigin]:
    source = make_repository(tmp_path / "source")
    git_output("tag", "v1", cwd=source)
    git_output("branch", "-m", "main", "unusual", cwd=source)
    with https_origin(tmp_path / "served") as secure:
        git_output("clone", "-q", "--bare", str(source), "shop.git", cwd=tmp_path / "served")
        yield secure


@pytest.fixture
async def setup(
    sqlite_url: str, origin: HttpsOrigin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Setup]:
    db = await open_database(sqlite_url, migrate=False)
    # As in a process that started long ago.
    monkeypatch.setattr(Contact, "has_lasted", lambda *_: True)
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path / "data")})
    acme = await create_organization(db, Plans(settings.plans), "acme", "enterprise")
    yield Setup(db, settings, acme, origin)
    await db.close()


async def test_an_import_connects_the_repository_in_the_background_on_behalf_of_its_user(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    header = f"Basic {base64.b64encode(f'git:{TOKEN}'.encode()).decode()}"
    setup.origin.origin.required_authorization = header
    importing = setup.imports("127.0.0.0/8")
    address = setup.origin.url("shop.git")
    with acting_as(ADA):
        view = await importing.start(setup.acme, address, token=TOKEN)
    assert (view.state, view.full_name, view.source) == ("running", "acme/shop", address)
    assert await setup.wait_until_idle() == []
    await importing.close()
    repo = await find_repo(setup.db, setup.acme.id, "acme/shop")
    assert (repo.default_branch, repo.index_status) == ("unusual", "indexing")
    git_dir = repositories.present_path(setup.settings.repositories_path, repo.id)
    assert git_output("tag", cwd=git_dir) == "v1"
    (entry,) = await list_entries(
        setup.db, setup.acme.id, AuditFilter(action="repo.connected"), limit=9
    )
    assert (entry.actor, entry.address, entry.target) == ("Ada", "192.0.2.1", "acme/shop")
    assert entry.details == {"source": address}
    assert TOKEN not in caplog.text
    assert not any(TOKEN.encode() in file.read_bytes() for file in _all_files(git_dir))


def _all_files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


async def test_a_private_address_is_refused_unless_the_operator_allows_it(
    setup: Setup,
) -> None:
    message = await setup.failure(setup.imports(), setup.origin.url("shop.git"))
    assert "127.0.0.1 is a loopback address; AGENTJOBS_EGRESS_ALLOW" in message
    assert setup.origin.origin.requests == []


async def test_the_guard_checks_the_address_that_is_dialled(setup: Setup) -> None:
    importing = setup.imports("10.0.0.0/8", lookup=lambda _: ["127.0.0.1"])
    message = await setup.failure(importing, setup.origin.url("shop.git", "git.test"))
    assert message.startswith("git.test: 127.0.0.1 is a loopback address")
    assert setup.origin.origin.requests == []


@pytest.mark.parametrize("address", ["https://me:pw@git.test/a/b", "http://git.test/a/b", "/srv/x"])
async def test_sources_that_tenants_may_not_use_are_rejected_immediately(
    setup: Setup, address: str
) -> None:
    importing = setup.imports("127.0.0.0/8")
    with pytest.raises(Problem) as caught:
        await importing.start(setup.acme, address)
    assert caught.value.code == "invalid_source"
    assert await list_imports(setup.db, setup.acme.id) == []


async def test_a_redirect_is_not_followed(setup: Setup) -> None:
    setup.origin.origin.redirects_to = "https://127.0.0.1:1"
    message = await setup.failure(setup.imports("127.0.0.0/8"), setup.origin.url("shop.git"))
    assert "redirects, which is not followed" in message


@pytest.mark.parametrize("given", [{}, {"token": "wrong"}])
async def test_a_wrong_credential_is_reported(setup: Setup, given: dict[str, str]) -> None:
    setup.origin.origin.required_authorization = "Basic x"
    message = await setup.failure(
        setup.imports("127.0.0.0/8"), setup.origin.url("shop.git"), **given
    )
    assert "denies access" in message
    assert "wrong" not in message


async def test_an_untrusted_certificate_is_reported(setup: Setup) -> None:
    importing = setup.imports("127.0.0.0/8", certificates=None)
    message = await setup.failure(importing, setup.origin.url("shop.git"))
    assert "AGENTJOBS_CA_FILE" in message


async def test_a_missing_or_empty_repository_is_reported(setup: Setup) -> None:
    message = await setup.failure(setup.imports("127.0.0.0/8"), setup.origin.url("none.git"))
    assert "was not found" in message
    git_output("init", "-q", "--bare", "empty.git", cwd=setup.origin.origin.root)
    message = await setup.failure(
        setup.imports("127.0.0.0/8"), setup.origin.url("empty.git"), name="acme/none"
    )
    assert "has no commits" in message


async def test_a_url_that_is_not_a_git_repository_is_reported(setup: Setup, tmp_path: Path) -> None:
    (tmp_path / "files" / "page" / "info").mkdir(parents=True)
    (tmp_path / "files" / "page" / "info" / "refs").write_text("<html>hello</html>\n")
    async with web_server("127.0.0.1", files=tmp_path / "files") as server:
        trusted = server.write_authority(tmp_path / "other.pem")
        importing = setup.imports("127.0.0.0/8", certificates=trusted)
        message = await setup.failure(
            importing, f"https://127.0.0.1:{server.https_port}/files/page", name="acme/page"
        )
    assert "is not a git repository" in message


async def test_a_dumb_http_repository_cannot_redirect_the_service_to_another_host(
    setup: Setup, tmp_path: Path
) -> None:
    """In git's dumb protocol, a repository may name alternates on other hosts."""
    served = tmp_path / "files"
    served.mkdir()
    git_output("clone", "-q", "--bare", str(setup.origin.origin.root / "shop.git"), cwd=served)
    git_output("update-server-info", cwd=served / "shop.git")
    shutil.move(served / "shop.git" / "objects", served / "elsewhere")
    (served / "shop.git" / "objects" / "info").mkdir(parents=True)
    async with web_server("127.0.0.1", "localhost", files=served) as server:
        there = f"https://localhost:{server.https_port}/files/elsewhere/\n"
        (served / "shop.git" / "objects" / "info" / "http-alternates").write_text(there)
        trusted = server.write_authority(tmp_path / "other.pem")
        importing = setup.imports("0.0.0.0/0", "::/0", certificates=trusted)
        message = await setup.failure(
            importing, f"https://127.0.0.1:{server.https_port}/files/shop.git"
        )
        paths = [request.path for request in server.requests]
    assert "cannot be fetched" in message
    assert not any("elsewhere" in path for path in paths)


async def test_a_repository_above_the_size_limit_is_refused(setup: Setup) -> None:
    message = await setup.failure(
        setup.imports("127.0.0.0/8", max_bytes=2_000), setup.origin.url("shop.git")
    )
    assert "larger than the" in message


async def test_an_import_may_have_what_the_organizations_quota_leaves(
    setup: Setup, tmp_path: Path
) -> None:
    setup.settings = msgspec.structs.replace(setup.settings, limit_organization_disk_mib=1)
    make_repository(tmp_path / "large", {"random.txt": os.urandom(MIB).hex()})
    git_output("clone", "-q", "--bare", "large", "served/large.git", cwd=tmp_path)
    message = await setup.failure(setup.imports("127.0.0.0/8"), setup.origin.url("large.git"))
    assert "which the organization's disk quota (limit_organization_disk_mib) may lower" in message


async def test_above_the_organizations_quota_nothing_is_imported(setup: Setup) -> None:
    setup.settings = msgspec.structs.replace(setup.settings, limit_organization_disk_mib=1)
    importing = setup.imports("127.0.0.0/8")
    await importing.start(setup.acme, setup.origin.url("shop.git"))
    assert await setup.wait_until_idle() == []
    await importing.close()
    repo = await find_repo(setup.db, setup.acme.id, "acme/shop")
    git_dir = repositories.present_path(setup.settings.repositories_path, repo.id)
    (git_dir / "filler").write_bytes(os.urandom(MIB))
    importing = setup.imports("127.0.0.0/8")
    try:
        with pytest.raises(Problem, match="take more disk space than 1 MiB") as caught:
            await importing.start(setup.acme, setup.origin.url("shop.git"), name="acme/again")
        assert caught.value.code == "disk_quota_exceeded"
        plans = Plans(setup.settings.plans)
        setup.acme = await create_organization(setup.db, plans, "other", "enterprise")
        await importing.start(setup.acme, setup.origin.url("shop.git"))
        assert await setup.wait_until_idle() == []
    finally:
        await importing.close()


async def test_stopping_the_service_stops_a_running_import(setup: Setup) -> None:
    async with silent_server() as (port, connected):
        importing = setup.imports("127.0.0.0/8")
        await importing.start(setup.acme, f"https://127.0.0.1:{port}/a/b", token=TOKEN)
        await asyncio.wait_for(connected.wait(), 20)
        children = _git_children(setup)
        assert children
        assert not any(b"Authorization" in _read(child / "cmdline") for child in children)
        assert not any(TOKEN.encode() in _read(child / "environ") for child in children)
        await importing.close()
    await until(lambda: not _git_children(setup))
    (view,) = await list_imports(setup.db, setup.acme.id)
    assert (view.state, view.message) == ("failed", rows.STOPPED)
    assert setup.files() == []


def _git_children(setup: Setup) -> list[Path]:
    """The git processes that work on the setup's files."""
    git_dir = f"GIT_DIR={setup.settings.data_path}/".encode()
    processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [path for path in processes if git_dir in _read(path / "environ")]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


async def test_files_of_a_killed_service_are_removed_once_its_lease_has_ended(setup: Setup) -> None:
    async with silent_server() as (port, connected):
        killed = setup.imports("127.0.0.0/8")
        view = await killed.start(setup.acme, f"https://127.0.0.1:{port}/a/b")
        await asyncio.wait_for(connected.wait(), 20)
        repo_id = view.id.replace("imp_", "repo_")
        assert setup.files() == [f".incoming-{repo_id}.git"]
        # As if the service had been killed after the fetch and before storing the row.
        target = repositories.path(setup.settings.repositories_path, repo_id)
        shutil.copytree(repositories.incoming_path(target), target)
        await setup.imports().recover()
        assert setup.files()
        await setup.end_leases()
        await setup.imports().recover()
        assert setup.files() == []
        await killed.close()
    (left,) = await list_imports(setup.db, setup.acme.id)
    assert (left.state, left.message) == ("failed", rows.STOPPED)


async def test_an_organizations_imports_run_one_at_a_time(setup: Setup) -> None:
    other = await create_organization(setup.db, Plans(setup.settings.plans), "other", "enterprise")
    async with silent_server() as (port, connected):
        importing = setup.imports("127.0.0.0/8")
        stuck = await importing.start(setup.acme, f"https://127.0.0.1:{port}/a/b")
        await asyncio.wait_for(connected.wait(), 20)
        waiting = await importing.start(setup.acme, setup.origin.url("shop.git"))
        with setup.db.changes.listen("index") as signal:
            await importing.start(other, setup.origin.url("shop.git"))
            while await list_imports(setup.db, other.id):
                assert await signal.wait(60)
            repos = await list_repos(setup.db, other.id)
            assert [repo.full_name for repo in repos] == ["other/shop"]
            while (messages := await setup.messages())[stuck.id] == rows.WAITING:
                assert await signal.wait(60)
        assert messages == {waiting.id: rows.WAITING, stuck.id: "Waiting for the server"}
        await importing.close()


async def test_a_name_that_is_already_connected_is_rejected(setup: Setup) -> None:
    async with silent_server() as (port, connected):
        importing = setup.imports("127.0.0.0/8")
        await importing.start(setup.acme, setup.origin.url("shop.git"))
        assert await setup.wait_until_idle() == []
        with pytest.raises(Problem) as caught:
            await importing.start(setup.acme, f"https://127.0.0.1:{port}/x", name="acme/shop")
        assert caught.value.code == "name_taken"
        assert not connected.is_set()
        await importing.close()


async def test_an_internal_error_is_reported_without_details(
    setup: Setup, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(*_: object) -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr(imports, "insert_repository", breaks)
    with caplog.at_level(logging.ERROR):
        message = await setup.failure(setup.imports("127.0.0.0/8"), setup.origin.url("shop.git"))
    assert "An internal error occurred" in message
    assert "RuntimeError: inside" in caplog.text


async def test_a_running_import_is_cancelled_without_leftovers(
    setup: Setup,
) -> None:
    async with silent_server() as (port, connected):
        importing = setup.imports("127.0.0.0/8")
        address = f"https://127.0.0.1:{port}/a/b"
        stuck = await importing.start(setup.acme, address, name="acme/stuck")
        await asyncio.wait_for(connected.wait(), 20)
        waiting = await importing.start(setup.acme, setup.origin.url("shop.git"))
        with pytest.raises(Problem) as caught:
            await importing.cancel("org_other", stuck.id)
        assert caught.value.code == "import_not_found"
        assert _git_children(setup)
        assert await importing.cancel(setup.acme.id, stuck.id) == "acme/stuck"
        # The import queued behind it runs now.
        assert await setup.wait_until_idle() == []
        assert [repo.full_name for repo in await list_repos(setup.db, setup.acme.id)] == [
            "acme/shop"
        ]
        assert len(setup.files()) == 1
        with pytest.raises(Problem) as caught:
            await importing.cancel(setup.acme.id, waiting.id)
        assert caught.value.code == "import_not_found"
        await importing.close()


async def test_a_queued_import_can_be_cancelled(setup: Setup) -> None:
    async with silent_server() as (port, connected):
        importing = setup.imports("127.0.0.0/8")
        await importing.start(setup.acme, f"https://127.0.0.1:{port}/a/b")
        await asyncio.wait_for(connected.wait(), 20)
        waiting = await importing.start(setup.acme, setup.origin.url("shop.git"))
        await importing.cancel(setup.acme.id, waiting.id)
        assert [view.full_name for view in await list_imports(setup.db, setup.acme.id)] == ["a/b"]
        await importing.close()


async def test_an_import_from_a_slow_server_is_stopped(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(imports._MIN_RATE, "http.lowSpeedTime", "1")
    setup.origin.origin.stalls.set()
    message = await setup.failure(setup.imports("127.0.0.0/8"), setup.origin.url("shop.git"))
    setup.origin.origin.stalls.clear()
    assert message.endswith("sent too little for too long; try again later.")


async def test_four_organizations_import_concurrently(setup: Setup) -> None:
    plans = Plans(setup.settings.plans)
    async with silent_server() as (port, _):
        importing = setup.imports("127.0.0.0/8")
        others = [await create_organization(setup.db, plans, f"o{n}", "free") for n in range(5)]
        for other in others:
            await importing.start(other, f"https://127.0.0.1:{port}/a/b")

        async def messages() -> list[str]:
            return [
                view.message for other in others for view in await list_imports(setup.db, other.id)
            ]

        with setup.db.changes.listen("index") as signal:
            while (await messages()).count("Waiting for the server") < 4:
                assert await signal.wait(60)
        assert (await messages()).count(rows.WAITING) == 1
        await importing.close()


async def test_files_of_an_interrupted_cancellation_are_removed_once_its_lease_has_ended(
    setup: Setup,
) -> None:
    async with silent_server() as (port, connected):
        killed = setup.imports("127.0.0.0/8")
        view = await killed.start(setup.acme, f"https://127.0.0.1:{port}/a/b")
        await asyncio.wait_for(connected.wait(), 20)
        await setup.db.transact(rows.cancel, setup.acme.id, view.id)
        assert setup.files()
        await setup.end_leases()
        await setup.imports().recover()
        assert setup.files() == []
        await killed.close()


async def test_another_process_may_cancel_an_import(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "_RENEW_SECONDS", 0.01)
    async with silent_server() as (port, connected):
        running = setup.imports("127.0.0.0/8")
        view = await running.start(setup.acme, f"https://127.0.0.1:{port}/a/b")
        await asyncio.wait_for(connected.wait(), 20)
        with setup.db.changes.listen("index") as signal:
            await setup.imports().cancel(setup.acme.id, view.id)
            while await list_imports(setup.db, setup.acme.id):
                assert await signal.wait(60)
        assert setup.files() == []
        await running.close()


async def test_closing_keeps_an_import_that_has_just_connected_its_repository(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, connected = imports._connect, asyncio.Event()

    async def connect_and_tell(tx: Transaction, *arguments: object) -> None:
        await connect(tx, *arguments)  # type: ignore[arg-type]
        connected.set()

    monkeypatch.setattr(imports, "_connect", connect_and_tell)
    monkeypatch.setattr(imports, "_RENEW_SECONDS", 0.001)
    importing = setup.imports("127.0.0.0/8")
    await importing.start(setup.acme, setup.origin.url("shop.git"))
    await connected.wait()
    await importing.close()
    repo = await find_repo(setup.db, setup.acme.id, "acme/shop")
    assert repositories.present_path(setup.settings.repositories_path, repo.id)
