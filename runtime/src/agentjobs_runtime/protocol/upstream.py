"""The provider that a job's model requests are sent to: URL, key and allowed models."""

from typing import Literal

import msgspec
from yarl import URL

Api = Literal["openai", "anthropic"]

_OPENAI_HOSTS = ("openai.com", "azure.com")


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is the base URL without `/v1`; in `models`, `*` matches any text."""

    api: Api
    url: str
    key: str
    models: tuple[str, ...] = ("*",)

    def __repr__(self) -> str:
        """Omits the key, because a repr may be logged."""
        return f"Upstream(api={self.api!r}, url={self.url!r})"

    def allows(self, model: str) -> bool:
        return any(matches_model(pattern, model) for pattern in self.models)

    def address(self, path: str, query: str) -> URL:
        base = self.url.rstrip("/").removesuffix("/v1")
        return URL(f"{base}{path}{'?' if query else ''}{query}", encoded=True)

    @property
    def credential(self) -> tuple[str, str]:
        if self.api == "anthropic":
            return "x-api-key", self.key
        return "Authorization", f"Bearer {self.key}"

    @property
    def chat_output_limit_field(self) -> str:
        """OpenAI's newer models reject `max_tokens`; other servers may support only that."""
        host = URL(self.url).host or ""
        return "max_completion_tokens" if host.endswith(_OPENAI_HOSTS) else "max_tokens"


def matches_model(pattern: str, model: str) -> bool:
    """Whether the pattern, in which `*` matches any text, matches the model's name."""
    first, *others = pattern.split("*")
    if not others:
        return model == pattern
    *inner, last = others
    if len(model) < len(first) + len(last) or not model.startswith(first):
        return False
    return model.endswith(last) and _contains_in_order(
        inner, model[len(first) : len(model) - len(last)]
    )


def _contains_in_order(parts: list[str], text: str) -> bool:
    """Takes the earliest match of each part, so that the time is linear for any pattern."""
    position = 0
    for part in parts:
        start = text.find(part, position)
        if start < 0:
            return False
        position = start + len(part)
    return True
