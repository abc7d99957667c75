"""Reads Pipfile.lock: two lists of packages, without their requirements."""

from collections.abc import Mapping

import msgspec

from agentjobs.inventory.manifests.locks import Lock
from agentjobs.inventory.manifests.pypi.names import ECOSYSTEM, exact_version, normalize_name
from agentjobs.inventory.manifests.text import Warnings, parse_json
from agentjobs.inventory.model import ParsedManifest, Root, Scope


class _Entry(msgspec.Struct):
    version: str | None = None
    index: str | None = None


class _Document(msgspec.Struct):
    default: dict[str, msgspec.Raw] = {}
    develop: dict[str, msgspec.Raw] = {}


_DOCUMENT = msgspec.json.Decoder(_Document)
_ENTRY = msgspec.json.Decoder(_Entry)


def read_pipfile_lock(content: bytes) -> ParsedManifest:
    document = parse_json(content, _DOCUMENT)
    lock = Lock(Warnings())
    direct = [*_add(lock, document.default, "runtime"), *_add(lock, document.develop, "dev")]
    return ParsedManifest(
        ECOSYSTEM,
        packages=lock.packages(),
        roots=(Root("", tuple(dict.fromkeys(direct))),) if direct else (),
        # pipenv sets an index for direct requirements; used if there is no Pipfile.
        notes={"roots": "guessed"} if direct else {},
        warnings=lock.warnings.all(),
    )


def _add(lock: Lock, section: Mapping[str, msgspec.Raw], scope: Scope) -> list[int]:
    direct = []
    for name, raw in section.items():
        try:
            entry = _ENTRY.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            lock.warnings.add(f"the entry {name[:100]!r} is left out: {str(error)[:100]}")
            continue
        version = exact_version(entry.version or "")
        if version is None:
            continue  # From a git repository or a directory: no version is pinned.
        lock.add(name, normalize_name(name), version, scope)
        position = lock.position(name)
        if entry.index is not None and position is not None:
            direct.append(position)
    return direct
