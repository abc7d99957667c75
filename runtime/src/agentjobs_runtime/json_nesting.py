"""Bounds how deep JSON nests, so that every program can read it and pass it on."""

from typing import Any

MAX_NESTING = 64


def nests_too_deep(value: Any, text: bytes) -> bool:
    """Whether a value that was decoded from `text` nests too deep."""
    # Counting brackets is cheap and excludes most texts.
    if text.count(b"{") + text.count(b"[") <= MAX_NESTING:
        return False
    level = _containers([value])
    for _ in range(MAX_NESTING):
        level = [inner for container in level for inner in _containers(container)]
        if not level:
            return False
    return True


def _containers(value: Any) -> list[Any]:
    inside = value.values() if isinstance(value, dict) else value
    return [inner for inner in inside if isinstance(inner, dict | list)]
