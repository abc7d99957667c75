"""Encrypts secrets at rest with AES-256-GCM, so that the database alone reveals nothing.

Owns the keys and the format of sealed values. Knows nothing about tables or what values are for.
"""

import base64
import binascii
import hashlib
import logging
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agentjobs.private_files import create_private_file
from agentjobs.problems import Problem
from agentjobs.settings import Settings

KEY_FILE = "encryption.key"

_log = logging.getLogger(__name__)

_VERSION = b"\x01"
_KEY_LENGTH = 32
_ID_LENGTH = 4
_NONCE_LENGTH = 12
_HEADER_LENGTH = len(_VERSION) + _ID_LENGTH
_GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO


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
        self.created_key_file = False
        self._configured = _parse_keys(texts, "AGENTJOBS_ENCRYPTION_KEY")
        self.path = path

    @classmethod
    def load(cls, settings: Settings) -> Self:
        keys = cls(settings.encryption_key.split(","), settings.data_path / KEY_FILE)
        if settings.encryption_key and not keys._configured:
            raise _invalid_key("AGENTJOBS_ENCRYPTION_KEY")
        return keys

    def seal(self, value: str, *context: str) -> Sealed:
        """`context` names what the value belongs to; opening requires the same context."""
        key_id, key = next(
            iter((self._configured or self._read_file() or self._create_key()).items())
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
        key = self._configured.get(key_id) or self._read_file().get(key_id)
        if key is None:
            raise Problem(
                "sealing_key_missing",
                f"The value was encrypted with key {key_id.hex()}, which this machine does not "
                f"have. Add that key to AGENTJOBS_ENCRYPTION_KEY or {self.path}, or store the "
                "value again.",
            )
        return key

    def _read_file(self) -> dict[bytes, bytes]:
        """Not cached: another process may have created the file in the meantime."""
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & _GROUP_AND_OTHERS:
                    raise Problem(
                        "sealing_key_exposed",
                        f"{self.path} is readable by other users; run: chmod 600 {self.path}",
                    )
                text = file.read().decode("ascii", "replace")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Problem(
                "sealing_key_unreadable",
                f"{self.path} cannot be read ({error.strerror}). Run the command as the service's "
                "user, or make that user the owner of the file.",
            ) from None
        return _parse_keys(text.split(), str(self.path))

    def _create_key(self) -> dict[bytes, bytes]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.created_key_file = create_private_file(
            self.path, base64.b64encode(secrets.token_bytes(_KEY_LENGTH)) + b"\n"
        )
        keys = self._read_file()
        if not keys:
            raise Problem(
                "sealing_key_missing", f"{self.path} does not contain a key; delete the file."
            )
        return keys


def _parse_keys(texts: Iterable[str], source: str) -> dict[bytes, bytes]:
    keys = [_decode_key(text.strip(), source) for text in texts if text.strip()]
    return {_key_id(key): key for key in keys}


def _decode_key(text: str, source: str) -> bytes:
    """Base64 in either alphabet, or hexadecimal."""
    try:
        if len(text) == 2 * _KEY_LENGTH:
            return bytes.fromhex(text)
        padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
        key = base64.b64decode(padded.translate(str.maketrans("-_", "+/")), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != _KEY_LENGTH:
        raise _invalid_key(source)
    return key


def _invalid_key(source: str) -> Problem:
    return Problem(
        "invalid_sealing_key",
        f"{source} must contain keys of {_KEY_LENGTH} bytes in base64; create one with: "
        f"openssl rand -base64 {_KEY_LENGTH}",
    )


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"agentjobs sealing key\0" + key).digest()[:_ID_LENGTH]


def _associated_data(header: bytes, context: Iterable[str]) -> bytes:
    parts = [part.encode() for part in context]
    return header + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _damaged_value() -> Problem:
    return Problem(
        "sealed_value_damaged",
        "An encrypted value was modified or moved in the database. Store the value again.",
    )
