"""Tags: what a worker offers, and what agents and repositories require of it."""

import re
from collections.abc import Sequence

MAX_TAGS = 6

_TAG = re.compile(r"[a-z0-9-]{1,32}")


def split_tags(text: str) -> list[str]:
    """`gpu,large` as a list; spaces around a tag are ignored."""
    return [tag.strip() for tag in text.split(",") if tag.strip()]


def tags_fault(tags: Sequence[str]) -> str | None:
    """What is wrong with the tags; None if they are valid."""
    for tag in tags:
        if not _TAG.fullmatch(tag):
            return f"{tag!r} must have 1 to 32 characters (a-z, 0-9, `-`)"
    if len(set(tags)) != len(tags):
        return "must not name a tag twice"
    return f"must be at most {MAX_TAGS} tags" if len(tags) > MAX_TAGS else None
