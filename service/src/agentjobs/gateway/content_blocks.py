"""Finds the content blocks of a request: images, files, and references to stored content.

Reads only the places where the APIs put content blocks. A tool's input is text, even if it looks
like an image block.
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
_TEXT_SOURCES = ("text", "content")
_IMAGE_URL_PREFIXES = ("data:image/", "http://", "https://")
_REFERENCE_FIELDS = ("file_id", "file_url")
MAX_BLOCKS = 50_000


class TooManyBlocks(Exception):
    """More blocks than any conversation has: reading all of them would block the event loop."""


def conversation(body: Block) -> list[Any]:
    """Messages and input items, under both names: servers differ in which one they read."""
    items: list[Any] = []
    for value in (body.get("messages"), body.get("input")):
        items += value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    return items


def collect_blocks(body: Block) -> list[Block]:
    """All content blocks, and all messages and items that have a type or tools.

    Raises TooManyBlocks.
    """
    blocks: list[Block] = []
    pending: list[Any] = [conversation(body), body.get("system")]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            if len(blocks) + len(pending) + len(value) > MAX_BLOCKS:
                raise TooManyBlocks
            pending += [item for item in value if not _is_plain_message(item)]
        elif isinstance(value, dict):
            if "type" in value or "tools" in value:
                blocks.append(value)
            source = value.get("source")
            nested = source.get("content") if isinstance(source, dict) else None
            pending += (value.get("content"), value.get("output"), nested)
    return blocks


def _is_plain_message(message: Any) -> bool:
    """A role and a text, like most messages: it contains no blocks."""
    return (
        isinstance(message, dict)
        and len(message) == 2
        and "role" in message
        and isinstance(message.get("content"), str)
    )


def block_type(block: Block) -> str:
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def image_bytes(block: Block) -> int:
    """How many bytes of the request are image data; a reference to an image counts as text."""
    source, image = block.get("source"), block.get("image_url")
    if isinstance(source, dict):
        data = source.get("data") if source.get("type") == "base64" else None
        return len(data) if isinstance(data, str) else 0
    if isinstance(image, dict):
        image = image.get("url")
    if isinstance(image, str) and image[:16].lower().startswith(_IMAGE_URL_PREFIXES):
        return len(image)
    return 0


def is_opaque_file(block: Block) -> bool:
    """A file with an unknown number of tokens; a page of a PDF counts as an image, for example."""
    if block_type(block) not in FILES:
        return False
    source = block.get("source")
    return not (
        block["type"] == "document"
        and isinstance(source, dict)
        and source.get("type") in _TEXT_SOURCES
    )


def is_stored_remotely(block: Block) -> bool:
    """The content is stored by the provider or on the web, so its size is unknown."""
    if block.get("type") == "item_reference":
        return True
    if block_type(block) not in FILES:
        return False
    parts = [block, block.get("source"), block.get("file")]
    return any(
        isinstance(part, dict)
        and (any(part.get(name) for name in _REFERENCE_FIELDS) or part.get("type") == "url")
        for part in parts
    )
