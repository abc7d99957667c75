"""Normalizes the text of a Python file: line ends, byte order mark, encoding."""

import re

_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
# In these encodings a byte below 128 may be part of a character, so the text is decoded before it
# is searched. Only codecs of known cost: the declared encoding is untrusted.
_RECODED = re.compile(
    r"(?:big5|cp\d|euc|gb|hz|iso|johab|koi8|ks|latin|mac|shift|sjis|s_jis|tis|utf.?7|windows)",
    re.IGNORECASE,
)


def normalize_source(content: bytes) -> bytes:
    """Removes byte order mark and carriage returns; the encoding preserves ASCII."""
    if content.startswith(b"\xef\xbb\xbf"):
        content = content[3:]
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    encoding = _encoding(content) if content.find(b"coding", 0, 400) >= 0 else None
    if encoding is None:
        return content
    try:
        return content.decode(encoding).encode(errors="replace")
    except (LookupError, ValueError):
        return content


def _encoding(content: bytes) -> str | None:
    """The encoding declared in the first two lines, if the text must be decoded."""
    for line in content[:1000].split(b"\n")[:2]:
        cookie = _COOKIE.match(line)
        if cookie is not None:
            name = cookie[1].decode()
            return name if _RECODED.match(name) else None
        if line.strip(b" \t\f") and not line.lstrip(b" \t\f").startswith(b"#"):
            return None
    return None
