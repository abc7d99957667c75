"""Parses YAML; a separate module because few repositories need the parser."""

from typing import Any

import yaml

from agentjobs.inventory.manifests.text import MAX_DEPTH, UnreadableManifest

# Larger than a lock file of 20,000 packages without its checksums; more takes seconds.
MAX_CHARACTERS = 4 << 20


def parse_yaml(text: str) -> Any:
    """Mappings, lists and strings. Scalars never become numbers (1.10 is a version); anchors,
    aliases and tags, which can expand in memory, are rejected. Returns the last document.

    Uses the parser's events, because libyaml's composer recurses without a limit.
    """
    if len(text) > MAX_CHARACTERS:
        raise UnreadableManifest(f"larger than {MAX_CHARACTERS >> 20} MiB")
    try:
        return _compose(text)
    except yaml.YAMLError as error:
        message = " ".join(str(error).split())
        raise UnreadableManifest(f"not valid YAML: {message[:200]}") from None


def _compose(text: str) -> Any:
    result: list[Any] = []
    stack: list[_Open] = [_Open(result)]
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise UnreadableManifest("YAML anchors, aliases and tags are not supported")
        if isinstance(event, yaml.ScalarEvent):
            stack[-1].put(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            inner: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            stack[-1].put(inner)
            stack.append(_Open(inner))
            if len(stack) > MAX_DEPTH:
                raise UnreadableManifest(f"nested more than {MAX_DEPTH} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
    return result[-1] if result else {}


class _Open:
    """A collection that is being built; a mapping expects a key, then its value."""

    __slots__ = ("_has_key", "_into", "_key")

    def __init__(self, into: Any) -> None:
        self._into = into
        self._key = ""
        self._has_key = False

    def put(self, value: Any) -> None:
        if isinstance(self._into, list):
            self._into.append(value)
        elif self._has_key:
            self._into[self._key] = value
            self._has_key = False
        elif isinstance(value, str):
            self._key, self._has_key = value, True
        else:
            raise UnreadableManifest("a key that is a list or a mapping")
