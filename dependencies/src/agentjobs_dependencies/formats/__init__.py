"""Recognizes and reads manifests and lock files, each on its own.

The fixer uses the same readers, in its sandbox.
"""

from collections.abc import Callable
from importlib import import_module

from agentjobs_dependencies.formats.kinds import ENDINGS, LARGE, READERS, detect_kind
from agentjobs_dependencies.formats.text import UnreadableManifest
from agentjobs_dependencies.model import ParsedManifest

__all__ = ["ENDINGS", "VERSION", "detect_kind", "read"]

# Incremented whenever a reader's result for the same bytes changes: repositories are indexed again.
VERSION = 2

# For files that people write; larger ones take long, and there may be many of them.
_MAX_BYTES = 8 << 20


def read(kind: str, content: bytes) -> ParsedManifest:
    """Read a file of this kind. Never raises: problems are in `warnings`."""
    ecosystem = READERS[kind][0]
    if len(content) > _MAX_BYTES and kind not in LARGE:
        reason = f"larger than {_MAX_BYTES >> 20} MiB: too large for a {kind}"
        return ParsedManifest(ecosystem, warnings=(reason,))
    try:
        return _load_reader(kind)(content)
    except UnreadableManifest as error:
        return ParsedManifest(ecosystem, warnings=(str(error),))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - one file must never abort the index
        reason = f"{kind} could not be read ({type(error).__name__}: {str(error)[:200]})"
        return ParsedManifest(ecosystem, warnings=(reason,))


def _load_reader(kind: str) -> Callable[[bytes], ParsedManifest]:
    """Imported when needed: a repository of one ecosystem needs few readers."""
    _, module, function = READERS[kind]
    reader: Callable[[bytes], ParsedManifest] = getattr(
        import_module(f"{__name__}.{module}"), function
    )
    return reader
