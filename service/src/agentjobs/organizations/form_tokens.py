"""Form tokens: each belongs to one session and is accepted once per form address.

A token is a random number with a MAC that only its session can make. Which tokens were used is
stored, so that a reload on another server does not repeat a change either.
"""

import base64
import hashlib
import hmac
import re
import secrets

from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import execute, in_transaction

_NONCE_BYTES = 12
_is_nonce = re.compile(r"[A-Za-z0-9_-]{16}").fullmatch


def new_nonce() -> str:
    return secrets.token_urlsafe(_NONCE_BYTES)


def form_token(key: str, nonce: str) -> str:
    """`key` is the session's own; see `Viewer.csrf`."""
    digest = hmac.digest(key.encode(), nonce.encode(), "sha256")
    return f"{nonce}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def nonce_from(text: str) -> str:
    """`text` if it has the form of a nonce, else an empty string."""
    return text if _is_nonce(text) else ""


def is_valid_token(key: str, token: str) -> bool:
    nonce = nonce_from(token.partition(".")[0])
    expected = form_token(key, nonce)
    return bool(key and nonce) and hmac.compare_digest(token.encode(), expected.encode())


@in_transaction
async def use_token(tx: Transaction, token: str, address: str) -> bool:
    """False when this token was used for this form before."""
    inserted = await tx.execute(
        "INSERT INTO used_form_tokens (hash, used_at) VALUES (:hash, :now)"
        " ON CONFLICT (hash) DO NOTHING",
        hash=_hash(token, address),
        now=await tx.clock_ms(),
    )
    return inserted == 1


async def return_token(db: Database, token: str, address: str) -> None:
    """Allow the form to be submitted again after it was refused."""
    statement = "DELETE FROM used_form_tokens WHERE hash = :hash"
    await db.transact(execute, statement, hash=_hash(token, address))


def _hash(token: str, address: str) -> bytes:
    return hashlib.sha256(f"{token} {address}".encode("utf-8", "replace")).digest()
