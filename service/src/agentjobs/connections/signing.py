"""How the commits of a connection are signed. The private key is stored sealed and never shown."""

from typing import get_args

import msgspec

from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import find_connection, signing_seal_context
from agentjobs.connections.rows import update
from agentjobs.organizations import audit
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.connection import Connection, Signing
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import PlatformError
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.git.signing import SigningKey
from agentjobs_runtime.problems import Problem

MODES: tuple[str, ...] = get_args(Signing)
# The namespace in which Gitea and Forgejo let an account prove that it has a key.
_GITEA_PROOF = "gitea"
_BY_HAND = {
    "github": "Add it at {url}/settings/ssh/new with the key type “Signing Key”",
    "gitlab": "Add it at {url}/-/user_settings/ssh_keys with the usage type “Signing”",
    "gitea": "Add it at {url}/user/settings/keys",
}
_PROVE = (
    " Then choose “Verify” beside the key at {url}/user/settings/keys, and sign the token that the"
    " page shows with “agentjobs platforms sign-token {name} TOKEN” or on the connection's page."
)


class SigningChange(msgspec.Struct, frozen=True):
    """`is_registered`: the platform knows the key now; `hint` says what is left to do."""

    connection: Connection
    is_registered: bool = False
    hint: str = ""


@audit.in_transaction
async def set_signing(
    tx: Transaction,
    keys: SealingKeys,
    organization: str,
    name: str,
    mode: str,
    *,
    private_key: str = "",
    is_new_key: bool = False,
) -> Connection:
    """For `ssh`, an existing key stays unless another is given or a new one is wanted.

    Other modes delete the key. Raises Problem.
    """
    connection = await find_connection(tx, organization, name)
    _check_mode(connection, mode)
    key: SigningKey | None = None
    if mode == "ssh":
        if connection.signing_public_key and not private_key and not is_new_key:
            return connection
        key = _parse(private_key) if private_key else SigningKey.generate()
    context = signing_seal_context(connection.organization_id, connection.id)
    sealed = None if key is None else keys.seal(key.private_text, *context)
    changed = msgspec.structs.replace(
        connection,
        signing=mode,
        signing_public_key=None if key is None else key.public_text,
    )
    await update(
        tx,
        connection,
        "signing = :signing, signing_sealed = :sealed, signing_key_id = :key_id,"
        " signing_public_key = :public_key",
        signing=mode,
        sealed=None if sealed is None else sealed.data,
        key_id="" if sealed is None else sealed.key_id,
        public_key=changed.signing_public_key,
    )
    await audit.record(
        tx, connection.organization_id, "forge.signing_changed", connection.name, signing=mode
    )
    return changed


async def open_signing_key(
    db: Database, keys: SealingKeys, connection_id: str
) -> SigningKey | None:
    """None if the service does not sign. Raises Problem if the key cannot be decrypted."""
    row = await db.fetch_one(
        "SELECT organization_id, name, signing_sealed FROM platform_connections"
        " WHERE id = :id AND removed_at IS NULL AND signing = 'ssh'",
        id=connection_id,
    )
    if row is None or not row["signing_sealed"]:
        return None
    context = signing_seal_context(row["organization_id"], connection_id)
    title = f"The signing key of {row['name']}"
    return SigningKey.parse(keys.open_named(title, bytes(row["signing_sealed"]), *context))


async def register_key(
    platforms: Platforms, connection: Connection, retry_budget: RetryBudget | None = None
) -> SigningChange:
    """Add the public key to the account on the platform, if the credential may."""
    if connection.signing != "ssh" or connection.signing_public_key is None:
        return SigningChange(connection)
    names = {"url": connection.url, "name": connection.name}
    prove = _PROVE.format(**names) if connection.platform == "gitea" else ""
    try:
        platform = await platforms.adapter_for(connection.id, retry_budget)
        await platform.register_signing_key(
            f"agentjobs {connection.name}", connection.signing_public_key
        )
    except PlatformError as error:
        by_hand = _BY_HAND[connection.platform].format(**names)
        hint = f"The platform does not have the key yet: {error} {by_hand}.{prove}"
        return SigningChange(connection, hint=hint)
    return SigningChange(connection, is_registered=True, hint=prove.strip())


async def sign_token(
    db: Database, keys: SealingKeys, organization: str, name: str, token: str
) -> str:
    """Proves to Gitea or Forgejo that the account has the key. Raises Problem."""
    connection = await find_connection(db, organization, name)
    key = await open_signing_key(db, keys, connection.id)
    if key is None:
        raise Problem("not_signing", f"{connection.name} has no signing key.")
    return key.sign(token.encode(), _GITEA_PROOF)


def _check_mode(connection: Connection, mode: str) -> None:
    if mode not in MODES:
        raise _invalid(f"{mode!r} is not a way to sign commits; use one of {', '.join(MODES)}.")
    if mode == "platform" and connection.kind != "app":
        raise _invalid(
            "Only GitHub signs commits itself, and only those of an App; use “ssh” instead."
        )
    if mode == "ssh" and connection.kind == "app":
        raise _invalid(
            "A GitHub App has no SSH keys, so GitHub could not verify the signature; use “platform”"
            " instead."
        )


def _parse(private_key: str) -> SigningKey:
    try:
        return SigningKey.parse(private_key)
    except ValueError as error:
        raise _invalid(f"The signing key must be an SSH key (Ed25519), and {error}.") from None


def _invalid(reason: str) -> Problem:
    return Problem("invalid_signing", reason)
