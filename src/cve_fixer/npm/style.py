"""How a package-lock.json is written: what npm makes anew takes the file's own habits. Pure."""

import re
from collections import Counter
from typing import Any

Lock = dict[str, Any]

_TARBALL = re.compile(r"(https?://[^\s\"]+?)(/(?:@[^/\s\"]+/)?[^/\s\"]+/-/[^/\s\"]+\.tgz)")


def in_style_of(text: str, lock: Lock) -> Lock:
    """Addresses are those that the text's other packages have, not a mirror's; and what older
    releases of npm do not write stays out."""
    bases = Counter(found[1] for found in _TARBALL.finditer(text))
    usual = bases.most_common(1)[0][0] if bases else ""
    strange = {key for key in ("license",) if f'"{key}":' not in text}

    def renewed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: renewed(inner) for key, inner in value.items() if key not in strange}
        found = _TARBALL.fullmatch(value) if isinstance(value, str) else None
        return f"{usual}{found[2]}" if usual and found and found[1] not in bases else value

    result: Lock = renewed(lock)
    return result
