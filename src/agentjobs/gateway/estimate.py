"""How many tokens a request may take in, guessed from its bytes and on the high side."""

from collections.abc import Sequence

from agentjobs.gateway.blocks import FILES, IMAGES, Block, kind_of, picture_bytes

BYTES_PER_TOKEN = 3
TOKENS_PER_MESSAGE = 16
TOKENS_PER_PICTURE = 5_000


def estimate_input(encoded: bytes, blocks: Sequence[Block], messages: int) -> int:
    """Names and punctuation of the JSON count as well: a model sees most of them in some form.

    A picture costs the same whatever its bytes; a file costs its bytes on top.
    """
    pictures = files = picture_size = 0
    for block in blocks:
        kind = kind_of(block)
        if kind in IMAGES:
            pictures += 1
            picture_size += picture_bytes(block)
        elif kind in FILES:
            files += 1
    text = -(-max(0, len(encoded) - picture_size) // BYTES_PER_TOKEN)
    return text + TOKENS_PER_MESSAGE * max(1, messages) + TOKENS_PER_PICTURE * (pictures + files)
