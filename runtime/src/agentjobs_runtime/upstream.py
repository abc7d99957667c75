"""The provider that a job's model requests are sent to: URL, key and allowed models."""

import re
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
    first, *inner = map(re.escape, pattern.split("*"))
    last = f".*{inner.pop()}" if inner else ""
    # The earliest match of each part, so that the time is linear for any pattern.
    parts = "".join(f"(?>.*?{part})" for part in inner)
    return re.fullmatch(first + parts + last, model, re.DOTALL) is not None
