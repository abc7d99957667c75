"""The encodings in which a secret value, or a part of it, may appear in a program's output."""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from string import ascii_lowercase, ascii_uppercase, digits
from urllib.parse import quote, quote_plus

MIN_LENGTH = 6
FRAGMENT_LENGTH = 11
# Large values do not slow down the search: it knows only some fragments, of their first characters.
_MAX_FRAGMENTS = 512
_MAX_CHARACTERS = 4_096
# A fragment is told from words, host names and numbers by its different characters, and by how
# often it changes between small letters, capitals and digits.
_MIN_DIFFERENT = 6
_MIN_CHANGES = 3
_KINDS = {
    letter: letters for letters in (ascii_lowercase, ascii_uppercase, digits) for letter in letters
}
# Other JSON Web Tokens say the same, and other keys have some of the same bytes as a private key,
# whose lines are searched for anyway.
_NOT_RANDOM = re.compile(r"eyJ[\w-]*\.|-----BEGIN [^-]*-----[^-]*")
# Encoders of URLs differ in what they escape, and in the case of the digits.
_NOT_ESCAPED = ("", "/", "!'()*", ";/?:@&=+$,#!'()*")
_ESCAPE = re.compile(r"%[0-9A-F]{2}")


def encode_forms(values: Iterable[str]) -> set[bytes]:
    """Omits values that are too short to tell from ordinary text."""
    forms = {form for value in values for form in _forms(value.strip())}
    return {form for form in forms if len(form) >= MIN_LENGTH}


def list_fragments(values: Iterable[str]) -> Iterator[tuple[bytes, int]]:
    """The offsets at which fragments begin in an encoded part of a value."""
    for value in (value[:_MAX_CHARACTERS] for value in values):
        step = 1 + len(value) // _MAX_FRAGMENTS
        lines = _NOT_RANDOM.sub("\n", value).splitlines()
        for form in encode_forms(part for line in lines for part in _random_parts(line)):
            for offset in range(0, len(form) - FRAGMENT_LENGTH + 1, step):
                yield form, offset


def _random_parts(line: str) -> Iterator[str]:
    kinds = [_KINDS.get(letter) for letter in line]
    is_change = (None not in pair and pair[0] is not pair[1] for pair in pairwise(kinds))
    changes = list(accumulate(is_change, initial=0))
    start = end = 0
    for at in range(len(line) - FRAGMENT_LENGTH + 1):
        last = at + FRAGMENT_LENGTH - 1
        if changes[last] - changes[at] < _MIN_CHANGES:
            continue
        if len(set(line[at : last + 1])) < _MIN_DIFFERENT:
            continue
        if at > end:
            yield line[start:end]
            start = at
        end = last + 1
    yield line[start:end]


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
    lines = (line.strip() for line in value.replace("\\n", "\n").splitlines())
    yield from (line.encode("utf-8", "replace") for line in lines if line[:5] != "-----")


def _inside_base64(data: bytes, offset: int) -> Iterator[bytes]:
    """The Base64 characters that depend on `data` only, whatever is around it."""
    first = -(-8 * offset // 6)
    last = 8 * (offset + len(data)) // 6
    padded = b"\0" * offset + data
    yield base64.b64encode(padded)[first:last]
    yield base64.urlsafe_b64encode(padded)[first:last]
