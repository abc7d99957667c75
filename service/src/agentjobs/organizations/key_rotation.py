"""Rotates the encryption key: encrypts every stored value again while the services run.

At every moment, each stored value can be decrypted with a key in the file, so an interrupted
rotation loses nothing and the next one continues it. `app/sealed_columns.py` lists the values.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from agentjobs.organizations import audit
from agentjobs.organizations.key_file import KEY_FILE, KeyFile, derive_key_id, new_key
from agentjobs.organizations.sealing import Sealed, SealingKeys
from agentjobs.store.database import Database, Row, Transaction
from agentjobs_runtime.files.locks import try_lock
from agentjobs_runtime.private_files import replace_private_file
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

# For operations that have read a value or a key before the last change.
SETTLE_SECONDS = 10.0
BATCH = 50

_ACTION = "secret.key_rotated"


class SealedValue(msgspec.Struct, frozen=True):
    name: str
    sealed: bytes
    context: tuple[str, ...]
    key: tuple[str, ...]


class SealedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """Encrypted values of a table, in the columns `sealed` and `key_id` with a prefix.

    A row without a value has no key, or an empty one. `context` gets a row, `name` is a format
    string for its columns. `source` has the columns that they need, if the table lacks some.
    """

    kind: str
    table: str
    context: Callable[[Row], tuple[str, ...]]
    name: str
    key: tuple[str, ...] = ("id",)
    prefix: str = ""
    source: str = ""

    async def find(self, db: Database, key_id: str, limit: int, offset: int) -> list[SealedValue]:
        """Values of other keys than this one, in a stable order."""
        rows = await db.fetch_all(
            f"SELECT * FROM {self.source or self.table}"
            f" WHERE {self.prefix}key_id NOT IN (:key_id, '')"
            f" ORDER BY {', '.join(self.key)} LIMIT :limit OFFSET :offset",
            key_id=key_id,
            limit=limit,
            offset=offset,
        )
        return [
            SealedValue(
                self.name.format_map(row),
                bytes(row[f"{self.prefix}sealed"]),
                self.context(row),
                tuple(row[column] for column in self.key),
            )
            for row in rows
        ]

    async def count_readable(self, db: Database, keys: SealingKeys) -> int:
        """Raises DecryptionFailed if this machine cannot decrypt a value."""
        count = 0
        while values := await self.find(db, "", BATCH, count):
            for value in values:
                keys.open_named(value.name, value.sealed, *value.context)
            count += len(values)
        return count

    async def replace(self, tx: Transaction, value: SealedValue, sealed: Sealed) -> None:
        """Changes nothing if the stored value is no longer the one that was found."""
        same_row = " AND ".join(f"{column} = :{column}" for column in self.key)
        sealed_column, key_column = f"{self.prefix}sealed", f"{self.prefix}key_id"
        await tx.execute(
            f"UPDATE {self.table} SET {sealed_column} = :new_sealed, {key_column} = :new_key_id"
            f" WHERE {same_row} AND {sealed_column} = :before",
            new_sealed=sealed.data,
            new_key_id=sealed.key_id,
            before=value.sealed,
            **dict(zip(self.key, value.key, strict=True)),
        )


class RotationResult(msgspec.Struct, frozen=True):
    """`failures` name the values that no key decrypts; then the old keys are kept."""

    key_id: str
    previous_key_ids: tuple[str, ...]
    resealed: dict[str, int]
    failures: tuple[str, ...]
    is_complete: bool


OnProgress = Callable[[str, int], None]
Sleep = Callable[[float], Awaitable[None]]


async def prepare_rotation(settings: Settings) -> RotationResult:
    """Adds a new key to the file, so that it can be copied to other machines before it is used."""
    with _lock_rotation(settings.data_path):
        _require_file(settings)
        file = _key_file(settings)
        keys, key_id = _begin(file)
        others = tuple(other.hex() for other in keys if other != key_id)
        return RotationResult(key_id.hex(), others, {}, (), is_complete=False)


async def rotate_key(
    db: Database,
    settings: Settings,
    kinds: Sequence[SealedColumn],
    on_progress: OnProgress,
    *,
    sleep: Sleep = asyncio.sleep,
) -> RotationResult:
    """Starts a rotation, or continues one that was prepared or interrupted."""
    with _lock_rotation(settings.data_path):
        if settings.encryption_key:
            return await _reseal_with_configured_keys(db, settings, kinds, on_progress)
        file = _key_file(settings)
        keys, key_id = _begin(file)
        keys = {key_id: keys[key_id], **keys}
        if list(keys) != list(file.read()):
            # From now on, the services encrypt with the new key.
            file.replace(keys)
        # In memory, so that the last values can be encrypted again after the old keys are removed.
        in_memory = SealingKeys([key.hex() for key in keys.values()], file.path)
        work = _Resealing(db, in_memory, key_id.hex(), kinds, on_progress)
        others = tuple(other.hex() for other in keys if other != key_id)
        for seconds in (SETTLE_SECONDS, 0):
            if not await work.run():
                return work.result(others, is_complete=False)
            await sleep(seconds)
        file.replace({key_id: keys[key_id]})
        await work.run()
        await _write_audit(db, key_id.hex(), others)
        _state_path(file).unlink(missing_ok=True)
        return work.result(others, is_complete=True)


def is_unfinished(settings: Settings) -> bool:
    return _state_path(_key_file(settings)).exists()


class _Resealing:
    def __init__(
        self,
        db: Database,
        keys: SealingKeys,
        key_id: str,
        kinds: Sequence[SealedColumn],
        on_progress: OnProgress,
    ) -> None:
        self._db = db
        self._keys = keys
        self._key_id = key_id
        self._kinds = kinds
        self._on_progress = on_progress
        self._counts = dict.fromkeys((kind.kind for kind in kinds), 0)
        self._failures: list[str] = []

    async def run(self) -> bool:
        """False if a value cannot be decrypted."""
        self._failures = []
        for kind in self._kinds:
            await self._reseal(kind)
        return not self._failures

    async def _reseal(self, kind: SealedColumn) -> None:
        failed = 0
        # What was encrypted again is no longer found; what failed stays at the beginning.
        while values := await kind.find(self._db, self._key_id, BATCH, failed):
            replacements: list[tuple[SealedValue, Sealed]] = []
            for value in values:
                try:
                    text = self._keys.open(value.sealed, *value.context)
                except Problem as problem:
                    failed += 1
                    self._failures.append(f"{value.name}: {problem.message}")
                    continue
                replacements.append((value, self._keys.seal(text, *value.context)))
            await self._db.transact(_replace, kind, replacements)
            self._counts[kind.kind] += len(replacements)
            self._on_progress(kind.kind, self._counts[kind.kind])

    def result(self, others: tuple[str, ...], *, is_complete: bool) -> RotationResult:
        return RotationResult(
            self._key_id, others, dict(self._counts), tuple(self._failures), is_complete
        )


async def _replace(
    tx: Transaction, kind: SealedColumn, replacements: Sequence[tuple[SealedValue, Sealed]]
) -> None:
    for value, sealed in replacements:
        await kind.replace(tx, value, sealed)


@audit.in_transaction
async def _write_audit(tx: Transaction, key_id: str, previous: Sequence[str]) -> None:
    for row in await tx.fetch_all("SELECT id FROM organizations ORDER BY id"):
        await audit.record(tx, row["id"], _ACTION, key_id, previous=previous)


async def _reseal_with_configured_keys(
    db: Database, settings: Settings, kinds: Sequence[SealedColumn], on_progress: OnProgress
) -> RotationResult:
    """The operator changes AGENTJOBS_ENCRYPTION_KEY; only the stored values are changed here."""
    keys = SealingKeys.load(settings)
    key_id = keys.seal("").key_id
    others = tuple(other for other in keys.ids() if other != key_id)
    work = _Resealing(db, keys, key_id, kinds, on_progress)
    is_complete = await work.run()
    result = work.result(others, is_complete=is_complete)
    if is_complete and any(result.resealed.values()):
        await _write_audit(db, key_id, others)
    return result


def _begin(file: KeyFile) -> tuple[dict[bytes, bytes], bytes]:
    """All keys and the id of the new one, which comes last until it is used.

    Its id is stored before the key: without it, another run could not tell which key is new.
    """
    keys = file.read()
    if not keys:
        raise Problem(
            "sealing_key_missing",
            f"There is no encryption key in {file.path}; it is created with the first secret.",
        )
    key_id = _stored_id(file)
    if key_id is None or key_id not in keys:
        key = new_key()
        key_id = derive_key_id(key)
        replace_private_file(_state_path(file), key_id.hex().encode() + b"\n")
        keys = {**keys, key_id: key}
        file.replace(keys)
    return keys, key_id


def _stored_id(file: KeyFile) -> bytes | None:
    try:
        return bytes.fromhex(_state_path(file).read_text().strip())
    except (FileNotFoundError, ValueError):
        return None


def _state_path(file: KeyFile) -> Path:
    return file.path.with_name(f"{KEY_FILE}.rotation")


def _key_file(settings: Settings) -> KeyFile:
    return KeyFile(settings.data_path / KEY_FILE)


def _require_file(settings: Settings) -> None:
    if settings.encryption_key:
        raise Problem(
            "key_in_environment",
            "The key is in AGENTJOBS_ENCRYPTION_KEY. Put a new key first in that variable for all "
            "services, restart them, and run `agentjobs secrets rotate-key`.",
        )


@contextlib.contextmanager
def _lock_rotation(data_path: Path) -> Iterator[None]:
    """The second of two concurrent rotations fails. The system unlocks when the process ends."""
    data_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = try_lock(data_path)
    if descriptor is None:
        raise Problem("rotation_running", "Another command is rotating the key.")
    try:
        yield
    finally:
        os.close(descriptor)
