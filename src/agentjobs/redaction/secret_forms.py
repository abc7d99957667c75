"""The encodings in which a secret value may appear in a program's output."""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

MIN_LENGTH = 6
# Encoders of URLs differ in what they escape, and in the case of the digits.
_NOT_ESCAPED = ("", "/", "!'()*", ";/?:@&=+$,#!'()*")
_ESCAPE = re.compile(r"%[0-9A-F]{2}")


def forms_of(values: Iterable[str]) -> set[bytes]:
    """Without values that are too short to tell from ordinary text."""
    forms = {form for value in values for form in _forms(value.strip())}
    return {form for form in forms if len(form) >= MIN_LENGTH}


def _forms(value: str) -> Iterator[bytes]:
    if len(value) < MIN_LENGTH:
        return
    escaped = [quote_plus(value), *(quote(value, safe=safe) for safe in _NOT_ESCAPED)]
    lowered = [_ESCAPE.sub(lambda match: match[0].lower(), text) for text in escaped]
    quoted = json.dumps(value)[1:-1]
    texts = (value, *escaped, *lowered, quoted, quoted.replace("/", "\\/"), html.escape(value))
    yield from (text.encode("utf-8", "replace") for text in texts)
    data = value.encode("utf-8", "replace")
    for offset in range(3):
        yield from _inside_base64(data, offset)
    # Programs print the lines of a key one by one, indented or numbered. Its first line is not
    # secret, and other private keys have the same.
    lines = (line.strip() for line in value.splitlines())
    yield from (line.encode("utf-8", "replace") for line in lines if line[:5] != "-----")


def _inside_base64(data: bytes, offset: int) -> Iterator[bytes]:
    """The Base64 characters that depend on `data` only, whatever is around it."""
    first = -(-8 * offset // 6)
    last = 8 * (offset + len(data)) // 6
    padded = b"\0" * offset + data
    yield base64.b64encode(padded)[first:last]
    yield base64.urlsafe_b64encode(padded)[first:last]
