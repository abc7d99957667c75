"""The format of bearer tokens: prefix, random body, checksum. Only their hashes are stored."""

import hashlib
import os
import zlib

API_KEY_PREFIX = "ajk_"
JOB_CREDENTIAL_PREFIX = "ajt_"

_ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BODY_LENGTH = 32
_CHECKSUM_LENGTH = 6
# Random bytes become digits; those at the end are dropped, so that all digits are equally likely.
_DIGITS = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
_DROPPED = bytes(range(256 - 256 % len(_ALPHABET), 256))


def new_token(prefix: str) -> str:
    # Every claim has a token: choosing each character takes several times as long.
    body = b""
    while len(body) < _BODY_LENGTH:
        body = os.urandom(2 * _BODY_LENGTH).translate(_DIGITS, _DROPPED)
    stem = f"{prefix}{body[:_BODY_LENGTH].decode()}"
    return f"{stem}{_checksum(stem)}"


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
    value = zlib.crc32(text.encode())
    digits = bytearray()
    for _ in range(_CHECKSUM_LENGTH):
        value, digit = divmod(value, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return digits[::-1].decode()
