"""Keeps what a stranger's manifest asks for within what a database and a page can hold."""

from collections.abc import Iterable

from agentjobs.inventory.manifests.locks import MAX_PACKAGES, MAX_TEXT
from agentjobs.inventory.manifests.text import Warnings
from agentjobs.inventory.model import Requirement


def within_bounds(
    requirements: Iterable[Requirement], warnings: Warnings
) -> tuple[Requirement, ...]:
    """Each once; names that cannot be names are left out, long words are cut."""
    kept: dict[Requirement, None] = {}
    for each in requirements:
        if len(kept) == MAX_PACKAGES:
            warnings.add(f"more than {MAX_PACKAGES} requirements; the rest was left out")
            break
        if not _is_plain(each.name):
            warnings.add(f"a requirement without a usable name was left out: {each.name[:100]!r}")
            continue
        specifier = "".join(c for c in each.specifier[:MAX_TEXT] if c.isprintable())
        version = each.version if each.version and _is_plain(each.version) else None
        kept[Requirement(each.name, specifier, version, each.scope)] = None
    return tuple(kept)


def _is_plain(text: str) -> bool:
    return 0 < len(text) <= MAX_TEXT and text.isprintable()
