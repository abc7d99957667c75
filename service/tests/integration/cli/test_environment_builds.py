"""`agentjobs repos environment show`, `build`, `rebuild` and `log` as an admin types them."""

import asyncio
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentjobs.environments import builds
from agentjobs.environments.definition_source import load_definition
from agentjobs.jobs.queue.leases import renew
from agentjobs.organizations.organizations import find_organization
from agentjobs.repos.queries import find_repo
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from agentjobs_runtime.environments.records import Finished
from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_runtime.settings import Settings
from tests.support.git_commands import make_repository
from tests.support.in_process_cli import InProcessCommandLine

COMMAND = ("repos", "environment")
NAME = "acme/shop"
FILE = '[environment]\nsetup = "make deps"\ncache = []\n'
LOCATION = "0123456789abcdef"
DEADLINE_SECONDS = 30


class Environments:
    def __init__(self, capsys, tmp_path, sqlite_template):
        (tmp_path / "data").mkdir()
        self.path = tmp_path / "data" / "agentjobs.db"
        shutil.copy(sqlite_template, self.path)
        self.agentjobs = InProcessCommandLine(capsys, tmp_path / "data")
        self._sources = tmp_path

    def connect(self, **files: str) -> None:
        source = make_repository(self._sources / "source", {"app.py": "x = 1\n", **files})
        assert self.agentjobs("repos", "connect", str(source), "--name", NAME).exit_code == 0

    def run(self, *arguments: str):
        return self.agentjobs(*COMMAND, *arguments)

    def in_store(self, work):
        async def run():
            db = await open_database(f"sqlite:///{self.path}", migrate=False)
            try:
                return await work(db)
            finally:
                await db.close()

        return asyncio.run(run())

    def add_worker(self) -> None:
        worker = WorkerInfo("wrk_1", "build-1", 1, ["fixer"], location=LOCATION)
        self.in_store(lambda db: renew(db, worker, [], 10))

    @contextmanager
    def worker(self, work) -> Iterator[None]:
        """A worker that claims one build in another thread, and does `work` with it."""
        self.add_worker()

        async def claim(db: Database) -> None:
            async with asyncio.timeout(DEADLINE_SECONDS):
                with db.changes.listen(builds.TOPIC) as signal:
                    while (build := await builds.claim_requested(db, LOCATION, b"x" * 32)) is None:
                        await signal.wait(1)
                await work(db, build.id)

        failures = []

        def run() -> None:
            try:
                self.in_store(claim)
            except BaseException as error:  # noqa: BLE001 - raised below, in the test's thread
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            thread.join()
        if failures:
            raise failures[0]


@pytest.fixture
def environments(capsys, tmp_path, sqlite_template):
    return Environments(capsys, tmp_path, sqlite_template)


async def succeed(db, build_id):
    await builds.renew_build(db, build_id, "one\n")
    finished = Finished(key="k" * 64, size_bytes=5 * 1024 * 1024, log="one\n\x1b[31mtwo\n")
    await builds.finish_build(db, build_id, finished)


def test_a_build_is_followed_to_its_end_and_shown_afterwards(environments):
    environments.connect(**{".agentjobs.toml": FILE})
    with environments.worker(succeed):
        built = environments.run("build", NAME)
    assert built.exit_code == 0, built.err
    assert built.err.count("one\n") == 1
    assert "two\nThe environment is ready: 5.0 MiB." in built.err
    assert "\x1b" not in built.err
    build_id = built.out.strip()
    shown = environments.run("show", NAME)
    assert ".agentjobs.toml at" in shown.out
    assert 'setup = "make deps"' in shown.out
    (row,) = (line for line in shown.out.splitlines() if line.startswith(build_id))
    assert row.split("\t")[1:5] == ["ready", "k" * 12, "build-1", "5.0 MiB"]
    document = environments.run("show", NAME, "--json").document
    assert (document["source"], document["definition"]["setup"]) == ("file", "make deps")
    assert [(each["id"], each["worker"]) for each in document["builds"]] == [(build_id, "build-1")]
    for arguments in ((NAME,), (NAME, build_id), (build_id,)):
        log = environments.run("log", *arguments)
        assert (log.exit_code, log.out.splitlines()[0]) == (0, "one")
    assert environments.run("log", build_id, "--json").document["log"].startswith("one\n")


def test_a_build_that_fails_says_why_and_exits_with_1(environments):
    environments.connect(**{".agentjobs.toml": FILE})

    async def fail(db, build_id):
        finished = Finished(error="setup exited with 2\nmake: no rule", log="make: no rule\n")
        await builds.finish_build(db, build_id, finished)

    with environments.worker(fail):
        failed = environments.run("rebuild", NAME, "--json")
    assert failed.exit_code == 1
    assert '"state": "failed"' in failed.out
    assert "The build did not succeed: setup exited with 2" in failed.out


def test_a_snapshot_that_is_up_to_date_is_not_built_again(environments):
    environments.connect(**{".agentjobs.toml": FILE})

    async def build(db, build_id):
        settings = Settings(data_dir=str(environments.path.parent))
        organization = await find_organization(db, "default")
        repo = await find_repo(db, organization.id, NAME)
        effective = await load_definition(db, settings.repositories_path, repo)
        await builds.describe_build(db, build_id, effective.commit, effective.request)
        await builds.finish_build(db, build_id, Finished(size_bytes=8_192))

    with environments.worker(build):
        built = environments.run("build", NAME)
    assert "ready: 8.0 KiB." in built.err
    assert f"{built.out.strip()}\tready (current)" in environments.run("show", NAME).out
    with environments.worker(builds.abandon_build):
        ended = environments.run("build", NAME)
    assert (ended.exit_code, ended.out) == (0, built.out)
    assert "Nothing to build: the snapshot is up to date." in ended.err
    with environments.worker(builds.abandon_build):
        ended = environments.run("rebuild", NAME)
    assert (ended.exit_code, ended.out) == (1, "")
    assert "ended without a result" in ended.err


@pytest.mark.parametrize(
    ("file", "message"),
    [("draft = true\n", "defines no environment"), ('[environment]\nstart = "x"\n', "neither")],
)
def test_a_repository_without_setup_and_image_has_nothing_to_build(environments, file, message):
    environments.connect(**{".agentjobs.toml": file})
    for verb in ("build", "rebuild"):
        done = environments.run(verb, NAME)
        assert (done.exit_code, done.out, message in done.err) == (0, "", True)
    shown = environments.run("show", NAME)
    assert (shown.exit_code, message in shown.err) == (0, True)


def test_without_a_worker_nobody_waits_for_a_build(environments):
    environments.connect(**{".agentjobs.toml": FILE})
    waiting = environments.run("build", NAME)
    assert (waiting.exit_code, waiting.out.startswith("env_")) == (1, True)
    assert "no worker is running" in waiting.err
    requested = environments.run("build", NAME, "--no-wait")
    assert (requested.exit_code, requested.out) == (0, waiting.out)
    environments.add_worker()
    requested = environments.run("build", NAME, "--no-wait", "--json").document
    assert requested["build"]["state"] == "queued"
    assert requested["build"]["id"] in requested["message"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("show", "acme/none"), "is not connected"),
        (("build", "acme/none"), "is not connected"),
        (("log", NAME), "was never built"),
        (("log", NAME, "env_x"), "no such build"),
        (("log", "env_" + "0" * 26), "no such build"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(environments, arguments, reason):
    environments.connect()
    refused = environments.run(*arguments)
    assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert reason in refused.err


def test_an_invalid_file_is_shown_with_its_error(environments):
    environments.connect(**{".agentjobs.toml": "[environment]\nsetup = 1\n"})
    shown = environments.run("show", NAME)
    assert (shown.exit_code, "error: .agentjobs.toml, line 2" in shown.out) == (0, True)
