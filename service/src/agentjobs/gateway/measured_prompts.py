"""The token counts that the provider reported for earlier prompts of one job.

A request of an agent mostly repeats the previous one and appends messages. What the provider
counted for the repeated part bounds it better than its bytes do. Knows nothing about prices.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

MAX_PROMPTS = 64
_KEEP_ALL = "all"


class MeasuredPart(NamedTuple):
    """The first `messages` of a conversation, with the tokens of everything up to there."""

    messages: int
    tokens: int


class MeasuredPrompts:
    def __init__(self) -> None:
        self._tokens: OrderedDict[bytes, int] = OrderedDict()

    def record(self, digests: Sequence[bytes], tokens: int) -> None:
        """`digests` are those of the prompt that the provider counted."""
        if digests:
            self._tokens[digests[-1]] = tokens
            self._tokens.move_to_end(digests[-1])
            while len(self._tokens) > MAX_PROMPTS:
                self._tokens.popitem(last=False)

    def longest_part(self, digests: Sequence[bytes]) -> MeasuredPart | None:
        for index in range(len(digests) - 1, -1, -1):
            tokens = self._tokens.get(digests[index])
            if tokens is not None:
                return MeasuredPart(index + 1, tokens)
        return None


def prompt_digests(body: dict[str, Any]) -> list[bytes]:
    """A digest of everything up to each message; empty if parts of the prompt may be left out.

    Each includes all other fields of the request, because they are part of the prompt.
    """
    name = "messages" if "messages" in body else "input"
    messages = body.get(name)
    if not isinstance(messages, list) or ("messages" in body and "input" in body):
        return []
    if body.get("truncation") or _removes_parts(body.get("context_management")):
        return []
    try:
        return _digests(body, name, messages)
    except RecursionError:
        return []


def _digests(body: dict[str, Any], name: str, messages: list[Any]) -> list[bytes]:
    others = {key: _without_cache_control(value) for key, value in body.items() if key != name}
    digest = hashlib.sha256(msgspec.json.encode(others))
    digests = []
    for message in messages:
        digest.update(b"\0" + msgspec.json.encode(_without_cache_control(message)))
        digests.append(digest.digest())
    return digests


def _removes_parts(management: Any) -> bool:
    edits = management.get("edits") if isinstance(management, dict) else management
    return not all(isinstance(edit, dict) and edit.get("keep") == _KEEP_ALL for edit in edits or ())


def _without_cache_control(value: Any) -> Any:
    """Agents move these marks from message to message; they are not part of the prompt."""
    if isinstance(value, list):
        return [_without_cache_control(part) for part in value]
    if not isinstance(value, dict):
        return value
    content = value.get("content")
    parts = {"content": _without_cache_control(content)} if isinstance(content, list) else {}
    return {key: part for key, part in value.items() if key != "cache_control"} | parts
