"""What all files of a commit say together: languages, dependencies, the module graph, warnings.

Pure: a portion that is the whole goes in, parts of a result come out.
"""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from agentjobs.inventory import manifests
from agentjobs.inventory.index.analysis import CONFIGURATION_PATH
from agentjobs.inventory.index.partial_index import Portion
from agentjobs.inventory.model import Dependency, IndexWarning, LanguageLines

MAX_WARNINGS = 200
MAX_NAME_CHARACTERS = 1_000


def languages_of(whole: Portion) -> tuple[LanguageLines, ...]:
    """Most lines first; what is binary, prose or data belongs to none."""
    rows = (LanguageLines(name, *sums) for name, sums in whole.languages.items() if sums[0])
    return tuple(sorted(rows, key=lambda row: (-row.lines, row.language)))


def configuration_of(whole: Portion) -> bytes | None:
    return whole.contents.get(CONFIGURATION_PATH)


def dependencies_of(whole: Portion) -> manifests.Combined:
    combined = manifests.combine(whole.manifests)
    kept = [one for one in combined.dependencies if _is_storable(one)]
    warnings = list(combined.warnings)
    if odd := len(combined.dependencies) - len(kept):
        warnings.append(IndexWarning("", f"{odd} packages with names that are no names: left out"))
    return manifests.Combined(tuple(kept), tuple(warnings))


def digest_of(dependencies: Sequence[Dependency]) -> str:
    return hashlib.sha256(msgspec.msgpack.encode(dependencies)).hexdigest()


def warnings_of(whole: Portion, more: Iterable[IndexWarning]) -> tuple[IndexWarning, ...]:
    """A bounded number of them, each once; the last then says how many there are besides."""
    own = (IndexWarning(path, reason) for path, reason in sorted(whole.warnings.items()))
    found = list(dict.fromkeys([*own, *more]))
    if len(found) <= MAX_WARNINGS:
        return tuple(found)
    rest = len(found) - MAX_WARNINGS
    return (*found[:MAX_WARNINGS], IndexWarning("", f"and {rest} more"))


def _is_storable(one: Dependency) -> bool:
    """A store takes any text but NUL; a person reads what can be printed."""
    texts = (one.name, one.version or "", one.requirement, *one.parents)
    return bool(one.name) and all(
        len(text) <= MAX_NAME_CHARACTERS and text.isprintable() for text in texts
    )
