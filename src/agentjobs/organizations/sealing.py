"""Seals what is kept at rest, with AES-256-GCM, so that the store alone gives nothing away.

Owns the keys and the form of what is sealed. Refuses to know tables, or what the values are for.
"""

import base64
import binascii
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agentjobs.problems import Problem
from agentjobs.settings import Settings

KEY_FILE = "encryption.key"

_VERSION = b"\x01"
_KEY_LENGTH = 32
_ID_LENGTH = 4
_NONCE_LENGTH = 12
_HEAD_LENGTH = len(_VERSION) + _ID_LENGTH
_OTHERS_MAY = stat.S_IRWXG | stat.S_IRWXO


class Sealed(msgspec.Struct, frozen=True):
    data: bytes
    key_id: str


class SealingKeys:
    """The first key seals, every key opens. The key file is made by the first seal, if needed."""

    def __init__(self, texts: Iterable[str], path: Path) -> None:
        self.made_a_key = False
        self._given = _by_id(texts, "AGENTJOBS_ENCRYPTION_KEY")
        self.path = path

    @classmethod
    def load(cls, settings: Settings) -> Self:
        keys = cls(settings.encryption_key.split(","), settings.data_path / KEY_FILE)
        if settings.encryption_key and not keys._given:
            raise _no_key("AGENTJOBS_ENCRYPTION_KEY")
        return keys

    def seal(self, value: str, *context: str) -> Sealed:
        """`context` says what the value belongs to; it opens nowhere else."""
        key_id, key = next(iter((self._given or self._in_file() or self._make()).items()))
        head = _VERSION + key_id
        nonce = secrets.token_bytes(_NONCE_LENGTH)
        body = AESGCM(key).encrypt(nonce, value.encode(), _bound(head, context))
        return Sealed(head + nonce + body, key_id.hex())

    def open(self, sealed: bytes, *context: str) -> str:
        head, rest = sealed[:_HEAD_LENGTH], sealed[_HEAD_LENGTH:]
        if head[:1] != _VERSION or len(rest) < _NONCE_LENGTH:
            raise _damaged()
        key = self._key(head[1:])
        nonce, body = rest[:_NONCE_LENGTH], rest[_NONCE_LENGTH:]
        try:
            return AESGCM(key).decrypt(nonce, body, _bound(head, context)).decode()
        except InvalidTag:
            raise _damaged() from None

    def _key(self, key_id: bytes) -> bytes:
        key = self._given.get(key_id) or self._in_file().get(key_id)
        if key is None:
            raise Problem(
                "sealing_key_missing",
                f"It was sealed with key {key_id.hex()}, which this machine does not have: put "
                f"that key into AGENTJOBS_ENCRYPTION_KEY or {self.path}, or store the value anew.",
            )
        return key

    def _in_file(self) -> dict[bytes, bytes]:
        """Read whenever it is asked for: another process may have made it since."""
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & _OTHERS_MAY:
                    raise Problem(
                        "sealing_key_exposed",
                        f"{self.path} may be read by others; type: chmod 600 {self.path}",
                    )
                text = file.read().decode("ascii", "replace")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Problem(
                "sealing_key_unreadable",
                f"{self.path} cannot be read ({error.strerror}): run this as the user of the "
                "service, or give that user the file.",
            ) from None
        return _by_id(text.split(), str(self.path))

    def _make(self) -> dict[bytes, bytes]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.made_a_key = _appear(self.path, base64.b64encode(secrets.token_bytes(_KEY_LENGTH)))
        keys = self._in_file()
        if not keys:
            raise Problem("sealing_key_missing", f"{self.path} holds no key; remove it first.")
        return keys


def _appear(path: Path, content: bytes) -> bool:
    """Whole or not at all, and never over another one. False: another process was faster."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            owner = path.parent.stat()
            if os.geteuid() == 0:
                # An administrator's command must not lock the service's own user out.
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            file.write(content + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)
    except FileExistsError:
        return False
    finally:
        partial.unlink()
    _sync_directory(path.parent)
    return True


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _by_id(texts: Iterable[str], source: str) -> dict[bytes, bytes]:
    keys = [_decoded(text.strip(), source) for text in texts if text.strip()]
    return {_id_of(key): key for key in keys}


def _decoded(text: str, source: str) -> bytes:
    """Base64 in either alphabet, or hexadecimal."""
    try:
        if len(text) == 2 * _KEY_LENGTH:
            return bytes.fromhex(text)
        padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
        key = base64.b64decode(padded.translate(str.maketrans("-_", "+/")), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != _KEY_LENGTH:
        raise _no_key(source)
    return key


def _no_key(source: str) -> Problem:
    return Problem(
        "invalid_sealing_key",
        f"{source} must hold keys of {_KEY_LENGTH} bytes in base64; make one with: "
        f"openssl rand -base64 {_KEY_LENGTH}",
    )


def _id_of(key: bytes) -> bytes:
    return hashlib.sha256(b"agentjobs sealing key\0" + key).digest()[:_ID_LENGTH]


def _bound(head: bytes, context: Iterable[str]) -> bytes:
    parts = [part.encode() for part in context]
    return head + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _damaged() -> Problem:
    return Problem(
        "sealed_value_damaged",
        "A sealed value does not open: it was changed or moved in the store. Store it anew.",
    )
