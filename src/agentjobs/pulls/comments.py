"""What people say about a pull request of the platform `local`: plain text, in order of time.

Whatever became of the pull request. Refuses to know how a comment is shown.
"""

import msgspec

from agentjobs.clock import now_ms
from agentjobs.identifiers import new_id
from agentjobs.organizations import audit
from agentjobs.problems import Problem
from agentjobs.pulls.pulls import Pull, check_here, get_pull
from agentjobs.store.database import Database, Transaction

MOST_COMMENTS = 1_000
MOST_BODY_LENGTH = 65_536


class Comment(msgspec.Struct, frozen=True):
    """`author` is what the author was called then; None as `author_id`: not a user or a key."""

    id: str
    author: str
    author_id: str | None
    body: str
    created_at: int


async def add_comment(
    db: Database, organization: str, full_name: str, number: int, body: str
) -> Comment:
    """By whoever acts."""
    text = _checked(body)
    pull = await get_pull(db, organization, full_name, number)
    check_here(pull)
    author = audit.current_actor()
    comment = Comment(new_id("cmt"), author.name, author.id, text, now_ms())
    entry = audit.entry("pull.commented", pull.short_name, comment=comment.id)
    await db.transact(_insert, pull, comment, entry)
    return comment


async def list_comments(db: Database, pull: Pull) -> list[Comment]:
    """The oldest first; there are never more than `MOST_COMMENTS`."""
    rows = await db.fetch_all(
        "SELECT id, author, author_id, body, created_at FROM pull_comments"
        " WHERE repo_id = :repo_id AND number = :number ORDER BY id",
        repo_id=pull.repo_id,
        number=pull.number,
    )
    return [msgspec.convert(dict(row), Comment) for row in rows]


def _checked(body: str) -> str:
    # A form ends its lines with both characters, and nobody meant two.
    text = body.replace("\r\n", "\n")
    if not text.strip():
        raise Problem("invalid_comment", "The comment is empty; write something.")
    if len(text) > MOST_BODY_LENGTH:
        raise Problem(
            "invalid_comment",
            f"A comment has at most {MOST_BODY_LENGTH} characters, and this one {len(text)}; "
            "make it shorter, or two of it.",
        )
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Problem(
            "invalid_comment",
            "The comment holds a zero byte or half a character; leave it out.",
        )
    return text


async def _insert(tx: Transaction, pull: Pull, comment: Comment, entry: audit.Entry) -> None:
    # Those who comment at the same time are counted one after the other.
    await tx.fetch_one(
        "SELECT number FROM pulls WHERE repo_id = :repo_id AND number = :number"
        " /*postgresql FOR NO KEY UPDATE */",
        repo_id=pull.repo_id,
        number=pull.number,
    )
    found = await tx.fetch_one(
        "SELECT COUNT(*) AS count FROM pull_comments WHERE repo_id = :repo_id AND number = :number",
        repo_id=pull.repo_id,
        number=pull.number,
    )
    assert found is not None
    if found["count"] >= MOST_COMMENTS:
        raise Problem(
            "too_many_comments",
            f"Pull request {pull.number} has {MOST_COMMENTS} comments, and there may be no more; "
            "go on elsewhere.",
        )
    await tx.execute(
        "INSERT INTO pull_comments (id, repo_id, number, author_id, author, body, created_at)"
        " VALUES (:id, :repo_id, :number, :author_id, :author, :body, :created_at)",
        repo_id=pull.repo_id,
        number=pull.number,
        **msgspec.structs.asdict(comment),
    )
    await audit.write(tx, pull.organization_id, entry)
