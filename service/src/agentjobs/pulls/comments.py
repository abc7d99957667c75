"""Comments on pull requests of the platform `local`, or on one of their lines, in chronological
order; those on lines have replies and can be resolved.

Pull requests of any state can be commented on. Rendering is up to the pages.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from agentjobs.local_git.diffs import file_diff_between
from agentjobs.local_git.patch import DiffLine
from agentjobs.organizations import audit
from agentjobs.pulls.comparison import Tips
from agentjobs.pulls.pulls import Pull, check_local, get_pull
from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import execute
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem

MAX_COMMENTS = 1_000
MAX_BODY_CHARACTERS = 65_536
# How many lines a comment quotes, and how much of each.
_QUOTED_LINES = 4
QUOTED_CHARACTERS = 300
_MARKS = {"added": "+", "removed": "-", "context": " "}


class CodePlace(msgspec.Struct, frozen=True):
    """A line of a changed file. `code` ends with it; `commit_id` was the head at that time."""

    path: str
    side: Literal["left", "right"]
    line: int
    commit_id: str
    code: str


class Comment(msgspec.Struct, frozen=True, kw_only=True):
    """`author` is the author's name at that time; `author_id` is None if it is no user or key.

    `job_id` is the follow-up that it started, `reply_to` the comment that it replies to.
    """

    id: str
    author: str
    author_id: str | None
    body: str
    created_at: int
    place: CodePlace | None = None
    reply_to: str | None = None
    job_id: str | None = None
    resolved_at: int | None = None
    resolved_by: str | None = None


@audit.in_transaction
async def add_comment(
    tx: Transaction,
    organization: str,
    full_name: str,
    number: int,
    body: str,
    *,
    place: CodePlace | None = None,
    reply_to: str | None = None,
) -> Comment:
    """Add a comment by the current actor; `reply_to` is a comment on a line."""
    text = _validate(body)
    pull = await get_pull(tx, organization, full_name, number)
    check_local(pull)
    # Locked, so that concurrent comments are counted one after the other.
    await tx.fetch_one(
        "SELECT number FROM pulls WHERE repo_id = :repo_id AND number = :number"
        " /*postgresql FOR NO KEY UPDATE */",
        **pull.key,
    )
    if await count_comments(tx, pull) >= MAX_COMMENTS:
        raise Problem(
            "too_many_comments",
            f"Pull request {pull.number} has reached the limit of {MAX_COMMENTS} comments.",
        )
    author = audit.current_actor()
    comment = Comment(
        id=new_id("cmt"),
        author=author.name,
        author_id=author.id,
        body=text,
        created_at=now_ms(),
        place=place,
        reply_to=reply_to,
    )
    await tx.execute(
        "INSERT INTO pull_comments (id, repo_id, number, author_id, author, body, created_at,"
        " path, side, line, commit_id, code, reply_to)"
        " VALUES (:id, :repo_id, :number, :author_id, :author, :body, :created_at,"
        " :path, :side, :line, :commit_id, :code, :reply_to)",
        id=comment.id,
        **pull.key,
        author_id=comment.author_id,
        author=comment.author,
        body=comment.body,
        created_at=comment.created_at,
        reply_to=reply_to and await _beginning(tx, pull, reply_to),
        **{name: place and getattr(place, name) for name in CodePlace.__struct_fields__},
    )
    await audit.record(
        tx, pull.organization_id, "pull.commented", pull.short_name, comment=comment.id
    )
    return comment


async def list_comments(db: Database, pull: Pull) -> list[Comment]:
    """The oldest first; at most `MAX_COMMENTS`."""
    rows = await db.fetch_all(
        "SELECT id, author, author_id, body, created_at, path, side, line, commit_id, code,"
        " reply_to, job_id, resolved_at, resolved_by FROM pull_comments"
        " WHERE repo_id = :repo_id AND number = :number ORDER BY id",
        **pull.key,
    )
    return [_comment(dict(row)) for row in rows]


@audit.in_transaction
async def resolve_comment(tx: Transaction, pull: Pull, comment_id: str, *, resolved: bool) -> None:
    """Resolve the conversation that a comment on a line began, or reopen it."""
    await tx.execute(
        "UPDATE pull_comments SET resolved_at = :at, resolved_by = :who WHERE id = :id",
        id=await _beginning(tx, pull, comment_id),
        at=await tx.clock_ms() if resolved else None,
        who=audit.current_actor().name if resolved else None,
    )
    await audit.record(
        tx,
        pull.organization_id,
        "pull.comment_resolved" if resolved else "pull.comment_reopened",
        pull.short_name,
        comment=comment_id,
    )


async def record_job(db: Database, pull: Pull, comment_ids: Sequence[str], job_id: str) -> None:
    """The follow-up that comments started."""
    await db.transact(
        execute,
        "UPDATE pull_comments SET job_id = :job_id WHERE repo_id = :repo_id AND number = :number"
        " AND id IN (SELECT value FROM each(:ids))",
        job_id=job_id,
        **pull.key,
        ids=list(comment_ids),
    )


def _comment(row: dict[str, object]) -> Comment:
    place = {name: row.pop(name) for name in CodePlace.__struct_fields__}
    values = row if place["path"] is None else {**row, "place": place}
    return msgspec.convert(values, Comment)


async def count_comments(db: Database | Transaction, pull: Pull) -> int:
    row = await db.fetch_one(
        "SELECT COUNT(*) AS count FROM pull_comments WHERE repo_id = :repo_id AND number = :number",
        **pull.key,
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


async def _beginning(tx: Transaction, pull: Pull, comment_id: str) -> str:
    """The comment on a line that a conversation began with."""
    row = await tx.fetch_one(
        "SELECT id FROM pull_comments WHERE repo_id = :repo_id AND number = :number"
        " AND id = :id AND path IS NOT NULL",
        **pull.key,
        id=comment_id,
    )
    if row is None:
        raise Problem("invalid_comment", "This comment on a line does not exist. Reload the page.")
    beginning: str = row["id"]
    return beginning


async def find_place(
    git_dir: Path, tips: Tips, path: str, side: Literal["left", "right"], line: int
) -> CodePlace:
    """The line with what is quoted of it. Raises Problem unless the pull request shows it."""
    file = await file_diff_between(git_dir, tips.base, tips.head, path)
    lines = () if file is None else file.lines
    for index, diff_line in enumerate(lines):
        # Lines that both versions have are those of the new one.
        number = diff_line.new_number if side == "right" else None
        if side == "left" and diff_line.kind == "removed":
            number = diff_line.old_number
        if number == line:
            return CodePlace(path, side, line, tips.head, _quote(lines[: index + 1]))
    raise Problem(
        "invalid_comment",
        f"Line {line} is not part of the changes. Choose a line that the page shows.",
    )


def _quote(lines: tuple[DiffLine, ...]) -> str:
    """The last line, and those before it in the same hunk."""
    quoted: list[str] = []
    for line in reversed(lines[-_QUOTED_LINES:]):
        if line.kind not in _MARKS:
            break
        text = line.text[:QUOTED_CHARACTERS].replace("\0", "\N{REPLACEMENT CHARACTER}")
        quoted.append(_MARKS[line.kind] + text)
    return "\n".join(reversed(quoted))
