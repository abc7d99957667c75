"""Rotating the encryption key: nothing is lost, wherever it is interrupted, on both stores."""

import asyncio
import base64
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentjobs.app.sealed_columns import SEALED_COLUMNS
from agentjobs.connections.connections import (
    NewConnection,
    open_credential,
    open_hook_secret,
    remove_connection,
)
from agentjobs.connections.signing import open_signing_key, set_signing
from agentjobs.environments.secret_definition import SecretDefinition
from agentjobs.environments.secrets import open_setup_secrets, set_environment_secret
from agentjobs.organizations import audit, key_file, key_rotation
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.key_file import KEY_FILE, KeyFile
from agentjobs.organizations.key_rotation import (
    RotationResult,
    is_unfinished,
    prepare_rotation,
    rotate_key,
)
from agentjobs.organizations.organizations import create_organization, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.organizations.secrets import list_secrets, open_secret, set_secret
from agentjobs.platform_sync.hook_registration import open_registered_secret
from agentjobs.repos.hook_rows import request_hooks, seal_context, store_secret
from agentjobs.repos.platform_rows import NewPlatformRepo, insert_platform_repo
from agentjobs.store.database import Database, Transaction
from agentjobs.tickets.trackers import NewTracker, add_tracker, open_tracker
from agentjobs.webhooks.endpoints import remove_endpoint
from agentjobs.webhooks.registration import add_endpoint
from agentjobs.webhooks.secret_rotation import rotate_secret
from agentjobs.webhooks.signing import SecretOpener, sealed_secrets
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings, load
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.added_connections import add_connection

URL = "https://93.184.215.14/hook"


class Crashed(BaseException):
    """Stands for kill -9: nothing after it runs."""


class Values:
    """One value of each kind, with what it must decrypt to."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self.db = db
        self.settings = settings

    @property
    def keys(self) -> SealingKeys:
        """As a service has them that was started before the rotation."""
        return SealingKeys.load(self.settings)

    async def create(self) -> None:
        db, keys = self.db, self.keys
        await create_organization(db, Plans(DEFAULT_PLANS), "acme", "free")
        self.organization = (await find_organization(db, "acme")).id
        for number in range(3):
            await set_secret(db, keys, "acme", f"KEY_{number}", f"value {number}")
        added = await add_endpoint(db, keys, "acme", URL, allowed=AllowList())
        self.endpoint = added.endpoint.id
        _, pending = await rotate_secret(db, keys, "acme", self.endpoint)
        self.endpoint_secrets = (added.secret, pending)
        new = NewConnection(platform="gitea", credential="token", url="https://git.example.org")
        self.connection = await add_connection(db, keys, "acme", new)
        name = self.connection.connection.name
        signing = await set_signing(db, keys, "acme", name, "ssh")
        self.signing_public_key = signing.signing_public_key
        gone = NewConnection(platform="gitea", credential="old", url="https://old.example.org")
        removed = (await add_connection(db, keys, "acme", gone)).connection
        await remove_connection(db, "acme", removed.name)
        self.repo = await db.transact(self._insert_repo)
        sealed = keys.seal("repo-secret", *seal_context(self.organization, self.repo))
        await db.transact(store_secret, self.repo, sealed)
        jira = NewTracker(kind="jira", url="https://jira.example.com", token="jira-token")
        self.tracker = (await add_tracker(db, keys, "acme", jira)).id
        await add_tracker(db, keys, "acme", NewTracker(kind="issues"))
        npm = SecretDefinition(name="NPM_TOKEN", purpose="setup", repo_id=self.repo)
        await set_environment_secret(db, keys, self.organization, npm, "npm-token")

    async def _insert_repo(self, tx: Transaction) -> str:
        repo = NewPlatformRepo(
            organization_id=self.organization,
            full_name="acme/shop",
            platform="gitea",
            source="",
            default_branch="main",
            connection_id=self.connection.connection.id,
            external_id="41",
        )
        repo_id = await insert_platform_repo(tx, repo, audit.entry("repo.connected", "acme/shop"))
        await request_hooks(tx, [repo_id])
        return repo_id

    async def check(self) -> None:
        """Everything can be decrypted with the keys that are in the file now."""
        db, keys = self.db, self.keys
        for number in range(3):
            opened = await open_secret(db, keys, self.organization, f"KEY_{number}")
            assert opened == f"value {number}"
        for column in SEALED_COLUMNS:
            if column.kind == "webhooks":
                assert await column.count_readable(db, keys) == 1
        row = await db.fetch_one("SELECT * FROM webhook_endpoints")
        assert row is not None
        sealed = sealed_secrets(row)
        both = SecretOpener(keys).open(self.organization, self.endpoint, sealed, now_ms())
        assert (both.main, both.next) == self.endpoint_secrets
        _, credential = await open_credential(db, keys, self.connection.connection.id)
        assert credential == "token"
        hook = await open_hook_secret(db, keys, self.connection.connection.id)
        assert hook is not None
        assert hook[1] == self.connection.hook_secret
        signing_key = await open_signing_key(db, keys, self.connection.connection.id)
        assert signing_key is not None
        assert signing_key.public_text == self.signing_public_key
        registered = await open_registered_secret(
            db, keys, self.connection.connection.id, self.repo
        )
        assert registered == ("gitea", "repo-secret")
        tracker = await open_tracker(db, keys, self.tracker)
        assert tracker is not None
        assert tracker[1] == "jira-token"
        assert await open_setup_secrets(db, keys, self.repo) == {"NPM_TOKEN": "npm-token"}

    def key_ids(self) -> list[str]:
        keys = KeyFile(self.settings.data_path / KEY_FILE).read()
        return [key_id.hex() for key_id in keys]

    async def rotate(
        self,
        db: Any = None,
        on_progress: Any = None,
        settle: Callable[[], Awaitable[None]] | None = None,
    ) -> RotationResult:
        """`settle` takes the place of the wait for operations that have read a value or a key."""

        async def sleep(_: float) -> None:
            await (settle() if settle else asyncio.sleep(0))

        ignore: Callable[[str, int], None] = lambda _kind, _number: None  # noqa: E731
        return await rotate_key(
            db or self.db, self.settings, SEALED_COLUMNS, on_progress or ignore, sleep=sleep
        )

    async def stale(self, key_id: str) -> int:
        found = [await kind.find(self.db, key_id, 100, 0) for kind in SEALED_COLUMNS]
        return sum(map(len, found))


@pytest.fixture
async def values(database: Database, tmp_path: Path) -> Values:
    values = Values(database, load({}, data_dir=str(tmp_path)))
    await values.create()
    return values


async def test_everything_is_encrypted_with_the_new_key_and_the_old_one_is_removed(
    values: Values,
) -> None:
    (old,) = values.key_ids()
    progress: list[tuple[str, int]] = []

    result = await values.rotate(on_progress=lambda *each: progress.append(each))

    assert result.is_complete
    assert result.previous_key_ids == (old,)
    assert result.resealed == {
        "secrets": 3,
        "webhooks": 2,
        "platforms": 3,
        "platform webhooks": 1,
        "trackers": 1,
        "environments": 1,
    }
    assert dict(progress) == result.resealed
    assert values.key_ids() == [result.key_id]
    assert (values.settings.data_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert await values.stale(result.key_id) == 0
    assert {secret.key_id for secret in await list_secrets(values.db, "acme")} == {result.key_id}
    await values.check()
    (entry, *_) = await list_entries(values.db, values.organization, AuditFilter(), limit=1)
    assert (entry.action, entry.target) == ("secret.key_rotated", result.key_id)
    assert entry.details == {"previous": [old]}
    assert not is_unfinished(values.settings)
    assert [path.name for path in values.settings.data_path.glob("*encryption*")] == [KEY_FILE]


class CrashingDatabase:
    """Crashes before or after one of the effects of a rotation."""

    def __init__(self, db: Database, crash_at: int) -> None:
        self._db = db
        self._left = crash_at

    def step(self) -> None:
        if self._left == 0:
            raise Crashed
        self._left -= 1

    async def transact(self, *args: Any, **options: Any) -> Any:
        self.step()
        result = await self._db.transact(*args, **options)
        self.step()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


@pytest.fixture
def crashing(
    values: Values, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], CrashingDatabase]]:
    current: list[CrashingDatabase] = []
    replace_file, unlink = key_file.replace_private_file, Path.unlink

    def replace(path: Path, content: bytes) -> None:
        current[0].step()
        replace_file(path, content)
        current[0].step()

    def remove(path: Path, **options: Any) -> None:
        current[0].step()
        unlink(path, **options)
        current[0].step()

    def start(crash_at: int) -> CrashingDatabase:
        current[:] = [CrashingDatabase(values.db, crash_at)]
        return current[0]

    monkeypatch.setattr(key_rotation, "BATCH", 2)
    monkeypatch.setattr(key_file, "replace_private_file", replace)
    monkeypatch.setattr(key_rotation, "replace_private_file", replace)
    monkeypatch.setattr(Path, "unlink", remove)
    yield start
    monkeypatch.undo()


async def test_a_rotation_that_is_killed_anywhere_loses_nothing_and_is_continued(
    values: Values, crashing: Callable[[int], CrashingDatabase]
) -> None:
    crash_at = 0
    has_crashed = True
    while has_crashed:
        before = values.key_ids()
        has_crashed = False
        try:
            await values.rotate(crashing(crash_at))
        except Crashed:
            has_crashed = True
            await values.check()
            # A service that runs meanwhile.
            await set_secret(values.db, values.keys, "acme", "LATER", str(crash_at))
        result = await values.rotate(crashing(-1)) if has_crashed else None
        await values.check()
        if result is not None:
            assert result.is_complete
            assert values.key_ids() == [result.key_id]
            assert before != [result.key_id]
            assert await values.stale(result.key_id) == 0
            later = await open_secret(values.db, values.keys, values.organization, "LATER")
            assert later == str(crash_at)
        crash_at += 1
    assert crash_at > 20


async def test_a_rotation_that_is_killed_again_and_again_ends(
    values: Values, crashing: Callable[[int], CrashingDatabase]
) -> None:
    (old,) = values.key_ids()
    for crash_at in range(100):
        try:
            result = await values.rotate(crashing(crash_at))
        except Crashed:
            await values.check()
            continue
        assert result.is_complete
        break
    await values.check()
    assert len(values.key_ids()) == 1
    assert old not in values.key_ids()


async def test_services_read_and_write_during_a_rotation(values: Values) -> None:
    done = asyncio.Event()
    keys = values.keys
    rounds: Counter[str] = Counter()
    round_ended = asyncio.Condition()

    async def repeat(name: str, operation: Callable[[], Awaitable[object]]) -> None:
        while not done.is_set():
            await operation()
            async with round_ended:
                rounds[name] += 1
                round_ended.notify_all()

    async def write() -> None:
        await set_secret(values.db, keys, "acme", "COUNTER", str(rounds["write"] + 1))

    async def finish_operations() -> None:
        """Those that have read a value or a key end, as in the seconds that a rotation waits."""
        before = Counter(rounds)
        async with round_ended:
            await round_ended.wait_for(
                lambda: all(rounds[name] > before[name] for name in ("read", "write"))
            )

    async with asyncio.TaskGroup() as services:
        services.create_task(repeat("read", values.check))
        services.create_task(repeat("write", write))
        for _ in range(5):
            assert (await values.rotate(settle=finish_operations)).is_complete
        done.set()
    counter = await open_secret(values.db, values.keys, values.organization, "COUNTER")
    assert counter == str(rounds["write"])


async def test_a_value_that_changes_meanwhile_is_not_overwritten(
    values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = SEALED_COLUMNS[0]
    stale = await kind.find(values.db, "00000000", 100, 0)
    await set_secret(values.db, values.keys, "acme", "KEY_0", "changed")

    async def replace(tx: Transaction) -> None:
        for value in stale:
            await kind.replace(tx, value, values.keys.seal("lost", *value.context))

    await values.db.transact(replace)

    assert await open_secret(values.db, values.keys, values.organization, "KEY_0") == "changed"
    assert await open_secret(values.db, values.keys, values.organization, "KEY_1") == "lost"


async def test_values_that_cannot_be_decrypted_are_named_and_keep_the_old_keys(
    values: Values, tmp_path: Path
) -> None:
    lost = SealingKeys([base64.b64encode(b"l" * 32).decode()], tmp_path / "other")
    await set_secret(values.db, lost, "acme", "A_LOST", "x")
    (old,) = values.key_ids()

    result = await values.rotate()

    assert not result.is_complete
    (failure,) = result.failures
    assert "A_LOST" in failure
    assert values.key_ids() == [result.key_id, old]
    assert result.resealed["secrets"] == 3
    await values.check()
    await set_secret(values.db, values.keys, "acme", "A_LOST", "found")
    repeated = await values.rotate()
    assert repeated.is_complete
    assert repeated.key_id == result.key_id
    assert values.key_ids() == [result.key_id]


async def test_lost_secrets_of_environments_are_named_with_their_repository_or_organization(
    values: Values, tmp_path: Path
) -> None:
    lost = SealingKeys([base64.b64encode(b"l" * 32).decode()], tmp_path / "other")
    for definition in (
        SecretDefinition(name="TOKEN", purpose="setup", repo_id=values.repo),
        SecretDefinition(name="IMAGES", purpose="registry", host="registry.example.com"),
    ):
        await set_environment_secret(values.db, lost, values.organization, definition, "x")

    result = await values.rotate()

    names = sorted(failure.partition(":")[0] for failure in result.failures)
    assert names == [
        f"The secret IMAGES of {values.organization}",
        f"The secret TOKEN of {values.repo}",
    ]


async def test_a_removed_endpoint_has_nothing_to_encrypt_again(values: Values) -> None:
    await remove_endpoint(values.db, "acme", values.endpoint)

    result = await values.rotate()

    assert result.failures == ()
    assert result.is_complete
    assert result.resealed["webhooks"] == 0


async def test_a_prepared_key_is_readable_but_not_used_until_the_rotation(values: Values) -> None:
    (old,) = values.key_ids()
    prepared = await prepare_rotation(values.settings)
    assert values.key_ids() == [old, prepared.key_id]
    assert values.keys.seal("x").key_id == old
    assert (await prepare_rotation(values.settings)).key_id == prepared.key_id
    assert is_unfinished(values.settings)

    result = await values.rotate()

    assert result.is_complete
    assert values.key_ids() == [result.key_id] == [prepared.key_id]


async def test_keys_in_the_environment_are_changed_by_the_operator(
    values: Values, tmp_path: Path
) -> None:
    (old,) = values.key_ids()
    new = base64.b64encode(b"n" * 32).decode()
    values.settings = load({}, data_dir=str(tmp_path), encryption_key=new)

    result = await values.rotate()

    assert result.is_complete
    assert result.previous_key_ids == (old,)
    assert values.key_ids() == [old]
    assert await values.stale(result.key_id) == 0
    await values.check()
    assert sum((await values.rotate()).resealed.values()) == 0
    with pytest.raises(Problem) as refused:
        await prepare_rotation(values.settings)
    assert refused.value.code == "key_in_environment"


async def test_two_rotations_at_once_and_one_without_a_key_are_refused(
    values: Values, tmp_path: Path
) -> None:
    with key_rotation._lock_rotation(values.settings.data_path), pytest.raises(Problem) as refused:
        await values.rotate()
    assert refused.value.code == "rotation_running"
    values.settings = load({}, data_dir=str(tmp_path / "empty"))
    with pytest.raises(Problem) as refused:
        await values.rotate()
    assert refused.value.code == "sealing_key_missing"
    assert values.key_ids() == []


def test_every_sealed_column_takes_part(sqlite_template: Path) -> None:
    with closing(sqlite3.connect(sqlite_template)) as database:
        rows = database.execute(
            "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
            " WHERE m.type = 'table' AND c.name LIKE '%sealed'"
        ).fetchall()
    listed = [(column.table, f"{column.prefix}sealed") for column in SEALED_COLUMNS]
    assert sorted(rows) == sorted(listed)
