"""The encryption keys: how they are written, and the file that holds them.

The first key encrypts, every key decrypts.
"""

import base64
import binascii
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentjobs_runtime.private_files import create_private_file, replace_private_file
from agentjobs_runtime.problems import Problem

KEY_FILE = "encryption.key"
ID_LENGTH = 4

_KEY_LENGTH = 32
_GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class KeyFile:
    """The file of keys, not cached: another process may change it at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.was_created = False

    def read(self) -> dict[bytes, bytes]:
        """The keys by their ids, in order; empty if the file does not exist."""
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
        return parse_keys(text.split(), str(self.path))

    def create(self) -> dict[bytes, bytes]:
        """Creates the file with a new key, unless another process creates it first."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.was_created = create_private_file(self.path, _format([new_key()]))
        keys = self.read()
        if not keys:
            raise Problem(
                "sealing_key_missing", f"{self.path} does not contain a key; delete the file."
            )
        return keys

    def replace(self, keys: Mapping[bytes, bytes]) -> None:
        replace_private_file(self.path, _format(keys.values()))


def new_key() -> bytes:
    return secrets.token_bytes(_KEY_LENGTH)


def derive_key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"agentjobs sealing key\0" + key).digest()[:ID_LENGTH]


def parse_keys(texts: Iterable[str], source: str) -> dict[bytes, bytes]:
    keys = [_decode_key(text.strip(), source) for text in texts if text.strip()]
    return {derive_key_id(key): key for key in keys}


def invalid_key(source: str) -> Problem:
    return Problem(
        "invalid_sealing_key",
        f"{source} must contain keys of {_KEY_LENGTH} bytes in base64; create one with: "
        f"openssl rand -base64 {_KEY_LENGTH}",
    )


def _format(keys: Iterable[bytes]) -> bytes:
    return b"".join(base64.b64encode(key) + b"\n" for key in keys)


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
        raise invalid_key(source)
    return key
