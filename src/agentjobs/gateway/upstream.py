"""Where a job's model requests really go, with which key, and for which models."""

import re
from functools import lru_cache
from typing import Literal

import msgspec
from yarl import URL

Api = Literal["openai", "anthropic"]

_OPENAI_HOSTS = ("openai.com", "azure.com")


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """A provider: `url` is its base without `/v1`; in `models`, `*` stands for anything."""

    api: Api
    url: str
    key: str
    models: tuple[str, ...] = ("*",)

    def __repr__(self) -> str:
        """Without the key: this may end up in a log."""
        return f"Upstream(api={self.api!r}, url={self.url!r})"

    def allows(self, model: str) -> bool:
        return any(names(pattern, model) for pattern in self.models)

    def address(self, path: str, query: str) -> URL:
        base = self.url.rstrip("/").removesuffix("/v1")
        return URL(f"{base}{path}{'?' if query else ''}{query}", encoded=True)

    @property
    def credential(self) -> tuple[str, str]:
        if self.api == "anthropic":
            return "x-api-key", self.key
        return "Authorization", f"Bearer {self.key}"

    @property
    def chat_maximum(self) -> str:
        """OpenAI's newer models refuse `max_tokens`; other servers may know nothing else."""
        host = URL(self.url).host or ""
        return "max_completion_tokens" if host.endswith(_OPENAI_HOSTS) else "max_tokens"


def names(pattern: str, model: str) -> bool:
    """Whether a pattern, in which `*` stands for anything, names this model."""
    return _compiled(pattern).fullmatch(model) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)
