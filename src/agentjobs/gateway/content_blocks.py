"""Walks the content of a request: pictures and files in it, and what it merely refers to.

Goes only where the APIs put content blocks. What an agent says inside a tool's input, however much
it looks like a picture, is text and stays counted as text.
"""

from typing import Any

Block = dict[str, Any]

IMAGES = frozenset({"image", "image_url", "input_image", "computer_screenshot"})
FILES = frozenset(
    {
        "audio",
        "audio_url",
        "container_upload",
        "document",
        "file",
        "input_audio",
        "input_file",
        "input_video",
        "video",
        "video_url",
    }
)
_PLAIN_SOURCES = ("text", "content")
_PICTURE_ADDRESSES = ("data:image/", "http://", "https://")
_REFERENCES = ("file_id", "file_url")
MAX_BLOCKS = 50_000


class TooManyBlocks(Exception):
    """More than any conversation has: looking at all of them would hold up everybody else."""


def conversation(body: Block) -> list[Any]:
    """Its messages and the items that are not text, under either name: servers differ."""
    found: list[Any] = []
    for said in (body.get("messages"), body.get("input")):
        found += said if isinstance(said, list) else [said] if isinstance(said, dict) else []
    return found


def blocks_of(body: Block) -> list[Block]:
    """Every content block, and every message and item around them that says what it is.

    Raises TooManyBlocks.
    """
    found: list[Block] = []
    pending: list[Any] = [conversation(body), body.get("system")]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            if len(found) + len(pending) + len(one) > MAX_BLOCKS:
                raise TooManyBlocks
            pending += [inner for inner in one if not _is_plain_text(inner)]
        elif isinstance(one, dict):
            if "type" in one or "tools" in one:
                found.append(one)
            source = one.get("source")
            nested = source.get("content") if isinstance(source, dict) else None
            pending += (one.get("content"), one.get("output"), nested)
    return found


def _is_plain_text(message: Any) -> bool:
    """A role and a text, as most messages are: there is nothing to find in them."""
    return (
        isinstance(message, dict)
        and len(message) == 2
        and "role" in message
        and isinstance(message.get("content"), str)
    )


def kind_of(block: Block) -> str:
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def image_bytes(block: Block) -> int:
    """How much of the request is the picture itself; what only stands in its place is text."""
    source, image = block.get("source"), block.get("image_url")
    if isinstance(source, dict):
        data = source.get("data") if source.get("type") == "base64" else None
        return len(data) if isinstance(data, str) else 0
    if isinstance(image, dict):
        image = image.get("url")
    if isinstance(image, str) and image[:16].lower().startswith(_PICTURE_ADDRESSES):
        return len(image)
    return 0


def is_opaque_file(block: Block) -> bool:
    """A file of which the provider may make any number of tokens: a page of a PDF is a picture."""
    if kind_of(block) not in FILES:
        return False
    source = block.get("source")
    return not (
        block["type"] == "document"
        and isinstance(source, dict)
        and source.get("type") in _PLAIN_SOURCES
    )


def is_stored_remotely(block: Block) -> bool:
    """A file that lies with the provider or on the web: its size cannot be seen from here."""
    if block.get("type") == "item_reference":
        return True
    if kind_of(block) not in FILES:
        return False
    inner = [block, block.get("source"), block.get("file")]
    return any(
        isinstance(one, dict) and (any(one.get(n) for n in _REFERENCES) or one.get("type") == "url")
        for one in inner
    )
