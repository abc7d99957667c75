"""Whom the commits of a connection name and how they are signed, with the operator's settings.

Pure functions.
"""

from agentjobs.platforms.connection import Connection
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.signing import fingerprint
from agentjobs_runtime.settings import Settings


def choose_identities(settings: Settings, account: Identity | None) -> tuple[Identity, Identity]:
    """Author and committer. What the operator has set comes before the connection's account."""
    author = Identity(
        settings.author_name or (account.name if account else settings.effective_author_name),
        settings.author_email or (account.email if account else settings.effective_author_email),
    )
    committer = Identity(
        settings.committer_name or author.name, settings.committer_email or author.email
    )
    return author, committer


def describe_commits(settings: Settings, connection: Connection) -> str:
    """A sentence about author, committer and signature."""
    if connection.signing == "platform":
        return f"Commits are made and signed by the platform as {connection.account}."
    author, committer = choose_identities(settings, connection.identity)
    names = f"{author}" if author == committer else f"{author}, committed by {committer},"
    if connection.signing == "ssh" and connection.signing_public_key:
        key = fingerprint(connection.signing_public_key)
        return f"Commits are by {names} and signed with the SSH key {key}."
    return f"Commits are by {names} and not signed."
