"""Makes invisible and direction-changing characters visible, so that text cannot deceive."""

import re

from agentjobs_runtime.safe_text import CONTROL_CHARACTERS, REPLACEMENT

# Bidirectional controls, zero-width spaces, fillers, invisible operators and tag characters.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064"
    "\u2066-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# Surrogates cannot be encoded.
_CONTROL = re.compile(rf"[{CONTROL_CHARACTERS}\r\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with invisible characters replaced by their code points."""
    if text.isascii() and text.isprintable():
        return text
    named = _INVISIBLE.sub(lambda match: f"⟦U+{ord(match[0]):04X}⟧", text)
    return _CONTROL.sub(REPLACEMENT, named.replace("\r\n", "\n"))
