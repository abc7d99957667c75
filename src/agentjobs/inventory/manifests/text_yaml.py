"""From bytes to YAML, apart from the other formats because few repositories need the parser."""

from typing import Any

import yaml

from agentjobs.inventory.manifests.text import MAX_DEPTH, Unreadable, refuse

# Takes seconds beyond this.
MAX_YAML_BYTES = 4 << 20


def parse_yaml(content: bytes) -> Any:
    """Mappings, lists and strings: no scalar becomes a number (1.10 is a version), and whatever
    can grow in memory (anchors, aliases, tags) is refused. Of several documents the last counts.

    Built from the parser's events: the composer of libyaml recurses without a limit.
    """
    refuse(content, MAX_YAML_BYTES)
    try:
        return _compose(content)
    except yaml.YAMLError as error:
        words = " ".join(str(error).split())
        raise Unreadable(f"not valid YAML: {words[:200]}") from None
    except UnicodeDecodeError as error:
        raise Unreadable(f"not valid UTF-8 at byte {error.start}") from None


def _compose(content: bytes) -> Any:
    result: list[Any] = []
    stack: list[_Open] = [_Open(result)]
    for event in yaml.parse(content, Loader=yaml.CSafeLoader):
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise Unreadable("anchors, aliases and tags of YAML are not read here")
        if isinstance(event, yaml.ScalarEvent):
            stack[-1].put(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            inner: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            stack[-1].put(inner)
            stack.append(_Open(inner))
            if len(stack) > MAX_DEPTH:
                raise Unreadable(f"nested more than {MAX_DEPTH} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
    return result[-1] if result else {}


class _Open:
    """A collection that is being filled; a mapping waits for a key, then for its value."""

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
            raise Unreadable("a key that is a list or a mapping")
