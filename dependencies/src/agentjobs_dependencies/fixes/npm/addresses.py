"""Addresses of packages in lock files: a mirror's becomes that of the file's other packages."""

import re
from collections import Counter
from collections.abc import Callable

_TARBALL = re.compile(r"(https?://[^\s\"]+?)(/(?:@[^/\s\"]+/)?[^/\s\"]+/-/[^/\s\"#]+\.tgz)")


def match_addresses(text: str) -> Callable[[str], str]:
    """A function that changes addresses whose registry is not in the text."""
    bases = Counter(match[1] for match in _TARBALL.finditer(text))
    if not bases:
        return lambda other: other
    common_base = bases.most_common(1)[0][0]
    return lambda other: _TARBALL.sub(
        lambda match: match[0] if match[1] in bases else f"{common_base}{match[2]}", other
    )
