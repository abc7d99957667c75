"""The text of a Python file as its tokens mean it: line ends, byte order mark, encoding."""

import re

_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
# Where a byte below 128 may be half of a character, the text is decoded before it is searched.
# Only codecs of known cost: what a file calls its encoding is not to be trusted.
_RECODED = re.compile(
    r"(?:big5|cp\d|euc|gb|hz|iso|johab|koi8|ks|latin|mac|shift|sjis|s_jis|tis|utf.?7|windows)",
    re.IGNORECASE,
)


def plain_text(content: bytes) -> bytes:
    """Without byte order mark and carriage returns, in an encoding that leaves ASCII alone."""
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
    """What one of the first two lines says, unless it makes no difference."""
    for line in content[:1000].split(b"\n")[:2]:
        cookie = _COOKIE.match(line)
        if cookie is not None:
            name = cookie[1].decode()
            return name if _RECODED.match(name) else None
        if line.strip(b" \t\f") and not line.lstrip(b" \t\f").startswith(b"#"):
            return None
    return None
