"""Encrypts secrets at rest with AES-256-GCM, so that the database alone reveals nothing.

Owns the format of sealed values. Knows nothing about tables or what values are for.
"""

import logging
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agentjobs.organizations.key_file import ID_LENGTH, KEY_FILE, KeyFile, invalid_key, parse_keys
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

_log = logging.getLogger(__name__)

_VERSION = b"\x01"
_NONCE_LENGTH = 12
_HEADER_LENGTH = len(_VERSION) + ID_LENGTH


class Sealed(msgspec.Struct, frozen=True):
    data: bytes
    key_id: str


class DecryptionFailed(Problem):
    """A stored secret that this machine cannot decrypt.

    `message` is for tenants; `reason`, which names the key and its file, is for the operator.
    """

    def __init__(self, name: str, cause: Problem) -> None:
        failure = f"{name} cannot be decrypted."
        super().__init__(cause.code, f"{failure} Replace it, or contact the operator.")
        self.reason = f"{failure} {cause.message}"


class SealingKeys:
    """The first key seals, every key opens. The first seal creates a key file if there is no key.

    Keys come from AGENTJOBS_ENCRYPTION_KEY, else from the key file.
    """

    def __init__(self, texts: Iterable[str], path: Path) -> None:
        self._configured = parse_keys(texts, "AGENTJOBS_ENCRYPTION_KEY")
        self._file = KeyFile(path)
        self.path = path

    @classmethod
    def load(cls, settings: Settings) -> Self:
        keys = cls(settings.encryption_key.split(","), settings.data_path / KEY_FILE)
        if settings.encryption_key and not keys._configured:
            raise invalid_key("AGENTJOBS_ENCRYPTION_KEY")
        return keys

    @property
    def created_key_file(self) -> bool:
        return self._file.was_created

    def ids(self) -> list[str]:
        """The first one encrypts."""
        return [key_id.hex() for key_id in {**self._configured, **self._file.read()}]

    def seal(self, value: str, *context: str) -> Sealed:
        """`context` names what the value belongs to; opening requires the same context."""
        key_id, key = next(
            iter((self._configured or self._file.read() or self._file.create()).items())
        )
        header = _VERSION + key_id
        nonce = secrets.token_bytes(_NONCE_LENGTH)
        body = AESGCM(key).encrypt(nonce, value.encode(), _associated_data(header, context))
        return Sealed(header + nonce + body, key_id.hex())

    def open(self, sealed: bytes, *context: str) -> str:
        header, rest = sealed[:_HEADER_LENGTH], sealed[_HEADER_LENGTH:]
        if header[:1] != _VERSION or len(rest) < _NONCE_LENGTH:
            raise _damaged_value()
        key = self._key(header[1:])
        nonce, body = rest[:_NONCE_LENGTH], rest[_NONCE_LENGTH:]
        try:
            return AESGCM(key).decrypt(nonce, body, _associated_data(header, context)).decode()
        except InvalidTag:
            raise _damaged_value() from None

    def open_named(self, name: str, sealed: bytes, *context: str) -> str:
        """`name` describes the value. Raises DecryptionFailed, and logs its reason."""
        try:
            return self.open(sealed, *context)
        except Problem as problem:
            failure = DecryptionFailed(name, problem)
            _log.warning("%s", failure.reason)
            raise failure from None

    def _key(self, key_id: bytes) -> bytes:
        key = self._configured.get(key_id) or self._file.read().get(key_id)
        if key is None:
            raise Problem(
                "sealing_key_missing",
                f"The value was encrypted with key {key_id.hex()}, which this machine does not "
                f"have. Add that key to AGENTJOBS_ENCRYPTION_KEY or {self.path}, or store the "
                "value again.",
            )
        return key


def _associated_data(header: bytes, context: Iterable[str]) -> bytes:
    parts = [part.encode() for part in context]
    return header + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _damaged_value() -> Problem:
    return Problem(
        "sealed_value_damaged",
        "An encrypted value was modified or moved in the database. Store the value again.",
    )
