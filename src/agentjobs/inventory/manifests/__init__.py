"""Manifests and lock files: which paths are such, what one says, what all say together.

A reader knows one kind of file and nothing of its neighbours: `combine` brings them together.
"""

from collections.abc import Callable
from importlib import import_module

from agentjobs.inventory.manifests.combine import Combined, combine
from agentjobs.inventory.manifests.kinds import ENDINGS, LARGE, READERS, kind_of
from agentjobs.inventory.manifests.text import Unreadable
from agentjobs.inventory.model import ParsedManifest

__all__ = ["ENDINGS", "VERSION", "Combined", "combine", "kind_of", "load_readers", "read"]

# Raised whenever a reader says something else of the same bytes: cached facts are read anew.
VERSION = 1

# Of what people write; reading more takes long, and there may be many such files.
_MAX_BYTES = 8 << 20


def read(kind: str, content: bytes) -> ParsedManifest:
    """What a file of this kind says. Never raises: what is wrong stands in `warnings`."""
    ecosystem = READERS[kind][0]
    if len(content) > _MAX_BYTES and kind not in LARGE:
        reason = f"larger than {_MAX_BYTES >> 20} MiB: no {kind} is"
        return ParsedManifest(ecosystem, warnings=(reason,))
    try:
        return _reader_of(kind)(content)
    except Unreadable as error:
        return ParsedManifest(ecosystem, warnings=(str(error),))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a stranger's file must never end the index
        reason = f"{kind} could not be read ({type(error).__name__}: {str(error)[:200]})"
        return ParsedManifest(ecosystem, warnings=(reason,))


def load_readers() -> None:
    """All of them at once, for a process that has the time."""
    for kind in READERS:
        _reader_of(kind)


def _reader_of(kind: str) -> Callable[[bytes], ParsedManifest]:
    """Loaded when needed: a repository of one ecosystem does not pay for the readers of all."""
    _, module, function = READERS[kind]
    reader: Callable[[bytes], ParsedManifest] = getattr(
        import_module(f"{__name__}.{module}"), function
    )
    return reader
