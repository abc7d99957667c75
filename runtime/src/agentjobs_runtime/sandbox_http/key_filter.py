"""Redacts the provider's key in data for the agent, even if the key spans two chunks."""

REDACTED = "[redacted]"
MIN_KEY_LENGTH = 12
"""Shorter keys are placeholders for local servers, and may occur in any response."""


def redact_key(text: str, key: str) -> str:
    return text.replace(key, REDACTED) if key else text


class Replacer:
    """Replaces text in a stream; holds back only bytes that may be the beginning of `old`."""

    def __init__(self, old: bytes, new: bytes) -> None:
        self._old = old
        self._new = new
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if not self._old:
            return data
        data = (self._held + data).replace(self._old, self._new)
        end = len(data) - self._partial_length(data)
        self._held = data[end:]
        return data[:end]

    def end(self) -> bytes:
        """The remaining bytes, which are not `old`."""
        held, self._held = self._held, b""
        return held

    def _partial_length(self, data: bytes) -> int:
        tail = data[1 - len(self._old) :] if len(self._old) > 1 else b""
        start = tail.find(self._old[:1])
        while start >= 0:
            if self._old.startswith(tail[start:]):
                return len(tail) - start
            start = tail.find(self._old[:1], start + 1)
        return 0


class KeyFilter(Replacer):
    def __init__(self, key: str, *, min_length: int = MIN_KEY_LENGTH) -> None:
        old = key.encode("utf-8", "surrogateescape") if len(key) >= max(1, min_length) else b""
        super().__init__(old, REDACTED.encode())
