"""Tenants connect repositories by https: real git, a real server, our guard between them."""

import asyncio
import base64
import logging
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from agentjobs.git.remote import Remote
from agentjobs.local_git import repositories
from agentjobs.organizations.audit import Actor, AuditFilter, acting_as, list_entries
from agentjobs.organizations.organizations import Organization, create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.problems import Problem
from agentjobs.repos.imports import imports, rows
from agentjobs.repos.imports.imports import Imports
from agentjobs.repos.imports.progress import Pace
from agentjobs.repos.imports.rows import ImportView, list_imports
from agentjobs.repos.queries import find_repo, list_repos
from agentjobs.settings import Settings, load
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from tests.support.git_server import until
from tests.support.https_git_server import SecureOrigin, https_origin, silent_server
from tests.support.local_repository import git_now, make_repository
from tests.support.web_server import web_server

TOKEN = "s3cret-token"
ADA = Actor("user", "Ada", "usr_1", "192.0.2.1")


@dataclass
class House:
    """An organization `acme`, and everything imports need."""

    db: Database
    settings: Settings
    acme: Organization
    origin: SecureOrigin

    def imports(self, *allowed: str, **options: object) -> Imports:
        settings = msgspec.structs.replace(self.settings, egress_allow=list(allowed))
        made = {"certificates": self.origin.authorities, **options}
        return Imports(self.db, settings, **made)  # type: ignore[arg-type] # a test's own options

    async def ended(self) -> list[ImportView]:
        """What is left when nothing runs any more."""
        with self.db.changes.listen("index") as signal:
            while any(one.state == "running" for one in await list_imports(self.db, self.acme.id)):
                assert await signal.wait(60)
        return await list_imports(self.db, self.acme.id)

    async def failure(self, importing: Imports, address: str, **given: str) -> str:
        """What the failed import of the address tells; nothing of it is left."""
        try:
            await importing.start(self.acme, address, **given)
            (failed,) = await self.ended()
        finally:
            await importing.close()
        assert failed.state == "failed"
        assert await list_repos(self.db, self.acme.id) == []
        assert self.files() == []
        return failed.message

    def files(self) -> list[str]:
        root = repositories.repositories_root(self.settings.data_path)
        return sorted(place.name for place in root.iterdir()) if root.is_dir() else []


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[SecureOrigin]:
    source = make_repository(tmp_path / "source")
    git_now("tag", "v1", cwd=source)
    git_now("branch", "-m", "main", "unusual", cwd=source)
    with https_origin(tmp_path / "served") as secure:
        git_now("clone", "-q", "--bare", str(source), "shop.git", cwd=tmp_path / "served")
        yield secure


@pytest.fixture
async def house(sqlite_url: str, origin: SecureOrigin, tmp_path: Path) -> AsyncIterator[House]:
    db = await open_database(sqlite_url, migrate=False)
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path / "data")})
    acme = await create_organization(db, Plans(settings.plans), "acme", "enterprise")
    yield House(db, settings, acme, origin)
    await db.close()


async def test_a_repository_is_connected_in_the_background_by_the_one_who_asked(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    header = f"Basic {base64.b64encode(f'git:{TOKEN}'.encode()).decode()}"
    house.origin.origin.required_authorization = header
    importing = house.imports("127.0.0.0/8")
    address = house.origin.url("shop.git")
    with acting_as(ADA):
        view = await importing.start(house.acme, address, token=TOKEN)
    assert (view.state, view.full_name, view.source) == ("running", "acme/shop", address)
    assert await house.ended() == []
    await importing.close()
    repo = await find_repo(house.db, house.acme.id, "acme/shop")
    assert (repo.default_branch, repo.index_status) == ("unusual", "indexing")
    git_dir = repositories.present_path(house.settings.data_path, repo.id)
    assert git_now("tag", cwd=git_dir) == "v1"
    (entry,) = await list_entries(
        house.db, house.acme.id, AuditFilter(action="repo.connected"), limit=9
    )
    assert (entry.actor, entry.address, entry.target) == ("Ada", "192.0.2.1", "acme/shop")
    assert entry.details == {"source": address}
    assert TOKEN not in caplog.text
    assert not any(TOKEN.encode() in file.read_bytes() for file in _all_files(git_dir))


def _all_files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


async def test_a_private_address_is_refused_in_words_unless_the_operator_allows_it(
    house: House,
) -> None:
    told = await house.failure(house.imports(), house.origin.url("shop.git"))
    assert "127.0.0.1 is a loopback address; AGENTJOBS_EGRESS_ALLOW" in told
    assert house.origin.origin.requests == []


async def test_a_name_is_judged_by_the_address_that_is_dialled(house: House) -> None:
    importing = house.imports("10.0.0.0/8", look_up=lambda _: ["127.0.0.1"])
    told = await house.failure(importing, house.origin.url("shop.git", "git.test"))
    assert told.startswith("git.test: 127.0.0.1 is a loopback address")
    assert house.origin.origin.requests == []


@pytest.mark.parametrize("address", ["https://me:pw@git.test/a/b", "http://git.test/a/b", "/srv/x"])
async def test_what_no_tenant_may_name_is_refused_at_once(house: House, address: str) -> None:
    importing = house.imports("127.0.0.0/8")
    with pytest.raises(Problem) as refused:
        await importing.start(house.acme, address)
    assert refused.value.code == "invalid_source"
    assert await list_imports(house.db, house.acme.id) == []


async def test_a_redirect_is_not_followed(house: House) -> None:
    house.origin.origin.redirects_to = "https://127.0.0.1:1"
    told = await house.failure(house.imports("127.0.0.0/8"), house.origin.url("shop.git"))
    assert "redirects, which is not followed" in told


@pytest.mark.parametrize("given", [{}, {"token": "wrong"}])
async def test_a_wrong_credential_is_told_as_such(house: House, given: dict[str, str]) -> None:
    house.origin.origin.required_authorization = "Basic x"
    told = await house.failure(house.imports("127.0.0.0/8"), house.origin.url("shop.git"), **given)
    assert "does not let us in" in told
    assert "wrong" not in told


async def test_a_certificate_of_nobody_we_trust_is_told_as_such(house: House) -> None:
    importing = house.imports("127.0.0.0/8", certificates=None)
    told = await house.failure(importing, house.origin.url("shop.git"))
    assert "AGENTJOBS_CA_FILE" in told


async def test_what_is_not_there_or_empty_is_told_as_such(house: House) -> None:
    told = await house.failure(house.imports("127.0.0.0/8"), house.origin.url("none.git"))
    assert "is not found" in told
    git_now("init", "-q", "--bare", "empty.git", cwd=house.origin.origin.root)
    told = await house.failure(
        house.imports("127.0.0.0/8"), house.origin.url("empty.git"), name="acme/none"
    )
    assert "has no commits on any branch" in told


async def test_what_is_no_git_repository_is_told_as_such(house: House, tmp_path: Path) -> None:
    (tmp_path / "files" / "page" / "info").mkdir(parents=True)
    (tmp_path / "files" / "page" / "info" / "refs").write_text("<html>hello</html>\n")
    async with web_server("127.0.0.1", files=tmp_path / "files") as server:
        trusted = server.write_authority(tmp_path / "other.pem")
        importing = house.imports("127.0.0.0/8", certificates=trusted)
        told = await house.failure(
            importing, f"https://127.0.0.1:{server.https_port}/files/page", name="acme/page"
        )
    assert "answers, but not as a git repository" in told


async def test_a_repository_of_plain_files_cannot_send_us_to_another_host(
    house: House, tmp_path: Path
) -> None:
    """git's old protocol lets a repository name others that have its objects."""
    served = tmp_path / "files"
    served.mkdir()
    git_now("clone", "-q", "--bare", str(house.origin.origin.root / "shop.git"), cwd=served)
    git_now("update-server-info", cwd=served / "shop.git")
    shutil.move(served / "shop.git" / "objects", served / "elsewhere")
    (served / "shop.git" / "objects" / "info").mkdir(parents=True)
    async with web_server("127.0.0.1", "localhost", files=served) as server:
        there = f"https://localhost:{server.https_port}/files/elsewhere/\n"
        (served / "shop.git" / "objects" / "info" / "http-alternates").write_text(there)
        trusted = server.write_authority(tmp_path / "other.pem")
        importing = house.imports("0.0.0.0/0", "::/0", certificates=trusted)
        told = await house.failure(
            importing, f"https://127.0.0.1:{server.https_port}/files/shop.git"
        )
        paths = [request.path for request in server.seen]
    assert "cannot be read as a git repository" in told
    assert not any("elsewhere" in path for path in paths)


async def test_more_than_may_be_fetched_is_refused(house: House) -> None:
    told = await house.failure(
        house.imports("127.0.0.0/8", most_bytes=2_000), house.origin.url("shop.git")
    )
    assert "larger than the" in told


async def test_the_end_of_the_service_ends_an_import_in_its_middle(house: House) -> None:
    async with silent_server() as (port, came):
        importing = house.imports("127.0.0.0/8")
        await importing.start(house.acme, f"https://127.0.0.1:{port}/a/b", token=TOKEN)
        await asyncio.wait_for(came.wait(), 20)
        children = _git_children(house)
        assert children
        assert not any(b"Authorization" in _read(child / "cmdline") for child in children)
        assert not any(TOKEN.encode() in _read(child / "environ") for child in children)
        await importing.close()
    await until(lambda: not _git_children(house))
    (view,) = await list_imports(house.db, house.acme.id)
    assert (view.state, view.message) == ("failed", rows.STOPPED)
    with pytest.raises(Problem, match="stopping"):
        await importing.start(house.acme, house.origin.url("shop.git"))
    assert house.files() == []


def _git_children(house: House) -> list[Path]:
    """The processes of git that work on the house's files."""
    git_dir = f"GIT_DIR={house.settings.data_path}/".encode()
    processes = [place for place in Path("/proc").iterdir() if place.name.isdigit()]
    return [place for place in processes if git_dir in _read(place / "environ")]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


async def test_what_a_killed_service_left_is_cleaned_at_the_next_start(house: House) -> None:
    async with silent_server() as (port, came):
        killed = house.imports("127.0.0.0/8")
        view = await killed.start(house.acme, f"https://127.0.0.1:{port}/a/b")
        await asyncio.wait_for(came.wait(), 20)
        repo_id = view.id.replace("imp_", "repo_")
        assert house.files() == [f".incoming-{repo_id}.git"]
        # As if it had been killed when all was fetched and nothing was written yet.
        target = repositories.path(house.settings.data_path, repo_id)
        shutil.copytree(repositories.incoming_path(target), target)
        await house.imports().recover()
        assert house.files() == []
        await killed.close()
    (left,) = await list_imports(house.db, house.acme.id)
    assert (left.state, left.message) == ("failed", rows.STOPPED)


async def test_an_organizations_imports_follow_each_other(house: House) -> None:
    other = await create_organization(house.db, Plans(house.settings.plans), "other", "enterprise")
    async with silent_server() as (port, came):
        importing = house.imports("127.0.0.0/8")
        stuck = await importing.start(house.acme, f"https://127.0.0.1:{port}/a/b")
        await asyncio.wait_for(came.wait(), 20)
        waiting = await importing.start(house.acme, house.origin.url("shop.git"))
        with house.db.changes.listen("index") as signal:
            await importing.start(other, house.origin.url("shop.git"))
            while await list_imports(house.db, other.id):
                assert await signal.wait(60)
        assert [repo.full_name for repo in await list_repos(house.db, other.id)] == ["other/shop"]
        views = {view.id: view.message for view in await list_imports(house.db, house.acme.id)}
        assert views[waiting.id] == rows.WAITING
        assert views[stuck.id] == "Waiting for the server's answer"
        await importing.close()


async def test_a_name_that_was_taken_meanwhile_is_told(house: House) -> None:
    async with silent_server() as (port, came):
        importing = house.imports("127.0.0.0/8")
        await importing.start(house.acme, house.origin.url("shop.git"))
        assert await house.ended() == []
        with pytest.raises(Problem) as refused:
            await importing.start(house.acme, f"https://127.0.0.1:{port}/x", name="acme/shop")
        assert refused.value.code == "name_taken"
        assert not came.is_set()
        await importing.close()


async def test_git_tells_how_far_it_is_while_it_fetches(house: House, tmp_path: Path) -> None:
    heard: list[bytes] = []
    source = Remote(str(house.origin.origin.root / "shop.git"))
    await repositories.import_from(
        source, tmp_path / "git" / "r.git", protocols="file", on_stderr=heard.append
    )
    assert b"\nReceiving objects: 100%" in b"".join(heard).replace(b"\r", b"\n")


async def test_a_fault_of_our_own_is_told_without_its_inside(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(*_: object) -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr(imports, "insert_repository", breaks)
    with caplog.at_level(logging.ERROR):
        told = await house.failure(house.imports("127.0.0.0/8"), house.origin.url("shop.git"))
    assert "inside the service" in told
    assert "RuntimeError: inside" in caplog.text


async def test_an_import_is_cancelled_in_its_middle_and_nothing_of_it_is_left(
    house: House,
) -> None:
    async with silent_server() as (port, came):
        importing = house.imports("127.0.0.0/8")
        address = f"https://127.0.0.1:{port}/a/b"
        stuck = await importing.start(house.acme, address, name="acme/stuck")
        await asyncio.wait_for(came.wait(), 20)
        waiting = await importing.start(house.acme, house.origin.url("shop.git"))
        with pytest.raises(Problem) as refused:
            await importing.cancel("org_other", stuck.id)
        assert refused.value.code == "import_not_found"
        assert _git_children(house)
        assert await importing.cancel(house.acme.id, stuck.id) == "acme/stuck"
        # Whoever waited behind it has its turn now.
        assert await house.ended() == []
        assert [repo.full_name for repo in await list_repos(house.db, house.acme.id)] == [
            "acme/shop"
        ]
        assert len(house.files()) == 1
        with pytest.raises(Problem) as refused:
            await importing.cancel(house.acme.id, waiting.id)
        assert refused.value.code == "import_not_found"
        await importing.close()


async def test_one_that_waits_for_its_turn_is_cancelled_too(house: House) -> None:
    async with silent_server() as (port, came):
        importing = house.imports("127.0.0.0/8")
        await importing.start(house.acme, f"https://127.0.0.1:{port}/a/b")
        await asyncio.wait_for(came.wait(), 20)
        waiting = await importing.start(house.acme, house.origin.url("shop.git"))
        await importing.cancel(house.acme.id, waiting.id)
        assert [view.full_name for view in await list_imports(house.db, house.acme.id)] == ["a/b"]
        await importing.close()


async def test_a_server_that_hardly_sends_anything_is_given_up(house: House) -> None:
    async with silent_server() as (port, _):
        importing = house.imports("127.0.0.0/8", new_pace=lambda: Pace(1024, 0.5))
        told = await house.failure(importing, f"https://127.0.0.1:{port}/a/b")
    assert told.startswith("Less than 1 KiB a second came in the last 0.5 seconds")


async def test_four_organizations_import_at_once(house: House) -> None:
    plans = Plans(house.settings.plans)
    async with silent_server() as (port, _):
        importing = house.imports("127.0.0.0/8")
        others = [await create_organization(house.db, plans, f"o{n}", "free") for n in range(5)]
        for other in others:
            await importing.start(other, f"https://127.0.0.1:{port}/a/b")

        async def messages() -> list[str]:
            return [
                view.message for other in others for view in await list_imports(house.db, other.id)
            ]

        with house.db.changes.listen("index") as signal:
            while (await messages()).count("Waiting for the server's answer") < 4:
                assert await signal.wait(60)
        assert (await messages()).count(rows.WAITING) == 1
        await importing.close()


async def test_what_was_left_by_a_cancel_that_was_cut_off_is_cleaned_at_the_next_start(
    house: House,
) -> None:
    async with silent_server() as (port, came):
        killed = house.imports("127.0.0.0/8")
        view = await killed.start(house.acme, f"https://127.0.0.1:{port}/a/b")
        await asyncio.wait_for(came.wait(), 20)
        await house.db.transact(rows.cancel, house.acme.id, view.id)
        assert house.files()
        await house.imports().recover()
        assert house.files() == []
        await killed.close()
