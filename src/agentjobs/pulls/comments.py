"""Comments on pull requests of the platform `local`: plain text, in chronological order.

Pull requests of any state can be commented on. Rendering is up to the pages.
"""

import msgspec

from agentjobs.clock import now_ms
from agentjobs.identifiers import new_id
from agentjobs.organizations import audit
from agentjobs.problems import Problem
from agentjobs.pulls.pulls import Pull, check_local, get_pull
from agentjobs.store.database import Database, Transaction

MAX_COMMENTS = 1_000
MAX_BODY_CHARACTERS = 65_536


class Comment(msgspec.Struct, frozen=True):
    """`author` is the author's name at that time; `author_id` is None if it is no user or key."""

    id: str
    author: str
    author_id: str | None
    body: str
    created_at: int


async def add_comment(
    db: Database, organization: str, full_name: str, number: int, body: str
) -> Comment:
    """Add a comment by the current actor."""
    text = _validate(body)
    pull = await get_pull(db, organization, full_name, number)
    check_local(pull)
    author = audit.current_actor()
    comment = Comment(new_id("cmt"), author.name, author.id, text, now_ms())
    entry = audit.entry("pull.commented", pull.short_name, comment=comment.id)
    await db.transact(_insert, pull, comment, entry)
    return comment


async def list_comments(db: Database, pull: Pull) -> list[Comment]:
    """The oldest first; at most `MAX_COMMENTS`."""
    rows = await db.fetch_all(
        "SELECT id, author, author_id, body, created_at FROM pull_comments"
        " WHERE repo_id = :repo_id AND number = :number ORDER BY id",
        repo_id=pull.repo_id,
        number=pull.number,
    )
    return [msgspec.convert(dict(row), Comment) for row in rows]


async def count_comments(db: Database, pull: Pull) -> int:
    row = await db.fetch_one(
        "SELECT COUNT(*) AS count FROM pull_comments WHERE repo_id = :repo_id AND number = :number",
        repo_id=pull.repo_id,
        number=pull.number,
    )
    assert row is not None
    return int(row["count"])


def _validate(body: str) -> str:
    # Forms send CRLF line endings.
    text = body.replace("\r\n", "\n")
    if not text.strip():
        raise Problem("invalid_comment", "The comment is empty.")
    if len(text) > MAX_BODY_CHARACTERS:
        raise Problem(
            "invalid_comment",
            f"A comment has at most {MAX_BODY_CHARACTERS} characters; this one has {len(text)}. "
            "Shorten it or split it.",
        )
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Problem(
            "invalid_comment",
            "The comment contains a NUL character or an unpaired surrogate; remove it.",
        )
    return text


async def _insert(tx: Transaction, pull: Pull, comment: Comment, entry: audit.Entry) -> None:
    # Locked, so that concurrent comments are counted one after the other.
    await tx.fetch_one(
        "SELECT number FROM pulls WHERE repo_id = :repo_id AND number = :number"
        " /*postgresql FOR NO KEY UPDATE */",
        repo_id=pull.repo_id,
        number=pull.number,
    )
    row = await tx.fetch_one(
        "SELECT COUNT(*) AS count FROM pull_comments WHERE repo_id = :repo_id AND number = :number",
        repo_id=pull.repo_id,
        number=pull.number,
    )
    assert row is not None
    if row["count"] >= MAX_COMMENTS:
        raise Problem(
            "too_many_comments",
            f"Pull request {pull.number} has reached the limit of {MAX_COMMENTS} comments.",
        )
    await tx.execute(
        "INSERT INTO pull_comments (id, repo_id, number, author_id, author, body, created_at)"
        " VALUES (:id, :repo_id, :number, :author_id, :author, :body, :created_at)",
        repo_id=pull.repo_id,
        number=pull.number,
        **msgspec.structs.asdict(comment),
    )
    await audit.write(tx, pull.organization_id, entry)
