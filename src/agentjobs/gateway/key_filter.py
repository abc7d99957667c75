"""Keeps the provider's key out of what goes to the agent, also where it comes in pieces."""

REDACTED = "[redacted]"
MIN_KEY = 12
"""What is shorter is a local server's pretended key, and may be a word of any answer."""


def without_key(text: str, key: str) -> str:
    return text.replace(key, REDACTED) if key else text


class KeyFilter:
    """Holds back no more than what may be the beginning of the key."""

    def __init__(self, key: str, *, least: int = MIN_KEY) -> None:
        self._key = key.encode("utf-8", "surrogateescape") if len(key) >= max(1, least) else b""
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if not self._key:
            return data
        data = (self._held + data).replace(self._key, REDACTED.encode())
        end = len(data) - self._beginning_at_the_end_of(data)
        self._held = data[end:]
        return data[:end]

    def end(self) -> bytes:
        """What turned out to be something else."""
        held, self._held = self._held, b""
        return held

    def _beginning_at_the_end_of(self, data: bytes) -> int:
        tail = data[1 - len(self._key) :] if len(self._key) > 1 else b""
        start = tail.find(self._key[:1])
        while start >= 0:
            if self._key.startswith(tail[start:]):
                return len(tail) - start
            start = tail.find(self._key[:1], start + 1)
        return 0
