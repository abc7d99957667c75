"""The format of bearer tokens: prefix, random body, checksum. Only their hashes are stored."""

import hashlib
import secrets
import zlib

API_KEY_PREFIX = "ajk_"
JOB_CREDENTIAL_PREFIX = "ajt_"

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Two digits at a time: every claim has a token.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_BODY_LENGTH = 32
_BODIES = len(_ALPHABET) ** _BODY_LENGTH  # Just above 190 bits.
_CHECKSUM_LENGTH = 6


def new_token(prefix: str) -> str:
    # One random number: choosing each character takes several times as long.
    body = _encode(secrets.randbelow(_BODIES), _BODY_LENGTH)
    return f"{prefix}{body}{_checksum(prefix + body)}"


def is_well_formed(token: str, prefix: str) -> bool:
    """Rejects typing errors and noise without a database query."""
    if len(token) != len(prefix) + _BODY_LENGTH + _CHECKSUM_LENGTH or not token.isascii():
        return False
    stem = token[:-_CHECKSUM_LENGTH]
    return token.startswith(prefix) and token[-_CHECKSUM_LENGTH:] == _checksum(stem)


def token_hash(token: str) -> bytes:
    """A plain hash is enough: a random token of this length cannot be guessed."""
    return hashlib.sha256(token.encode()).digest()


def _checksum(text: str) -> str:
    return _encode(zlib.crc32(text.encode()), _CHECKSUM_LENGTH)


def _encode(value: int, length: int) -> str:
    """An even number of digits."""
    pairs = []
    for _ in range(length // 2):
        value, pair = divmod(value, len(_PAIRS))
        pairs.append(_PAIRS[pair])
    return "".join(reversed(pairs))
