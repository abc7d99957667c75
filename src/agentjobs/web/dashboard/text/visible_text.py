"""Names the characters that make text look like other text than it is: a reviewer must see them."""

import re

from agentjobs.safe_text import CONTROL_CHARACTERS, REPLACEMENT

# Directions, spaces of no width, fillers, invisible operators, and letters that only machines read.
_DECEIVING = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064"
    "\u2066-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# Half of a character (a surrogate) cannot be sent at all.
_CONTROL = re.compile(rf"[{CONTROL_CHARACTERS}\r\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with its invisible characters named, so that what is read is what is there."""
    if text.isascii() and text.isprintable():
        return text
    named = _DECEIVING.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", text)
    return _CONTROL.sub(REPLACEMENT, named.replace("\r\n", "\n"))
