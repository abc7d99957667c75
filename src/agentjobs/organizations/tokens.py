"""The format of bearer tokens: prefix, random body, checksum. Only their hashes are stored."""

import hashlib
import secrets
import zlib

API_KEY_PREFIX = "ajk_"
JOB_CREDENTIAL_PREFIX = "ajt_"

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BODY_LENGTH = 32  # 62^32 is just above 190 bits
_CHECKSUM_LENGTH = 6


def new_token(prefix: str) -> str:
    body = "".join(secrets.choice(_ALPHABET) for _ in range(_BODY_LENGTH))
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
    value = zlib.crc32(text.encode())
    digits = []
    for _ in range(_CHECKSUM_LENGTH):
        value, digit = divmod(value, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
