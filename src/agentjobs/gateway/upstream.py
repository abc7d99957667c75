"""Where a job's model requests really go, with which key, and for which models."""

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
    first, *others = pattern.split("*")
    if not others:
        return model == pattern
    *inner, last = others
    if len(model) < len(first) + len(last) or not model.startswith(first):
        return False
    return model.endswith(last) and _in_order(inner, model[len(first) : len(model) - len(last)])


def _in_order(parts: list[str], text: str) -> bool:
    """Each as early as it can be: so nothing is looked at twice, whatever the agent made up."""
    place = 0
    for part in parts:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True
