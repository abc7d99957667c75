"""What older versions of platforms lack, as far as the service uses it; docs/platforms.md has the
sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OlderVersion:
    """`operations` are answered with 404 and the message, `fields` are left out of all responses,
    and so are `headers`, which are given by how they start."""

    operations: Mapping[str, str]
    fields: frozenset[str] = frozenset()
    headers: tuple[str, ...] = ()

    def without_fields(self, content: Any) -> Any:
        if isinstance(content, list):
            return [self.without_fields(row) for row in content]
        if not isinstance(content, dict):
            return content
        return {
            name: self.without_fields(value)
            for name, value in content.items()
            if name not in self.fields
        }

    def without_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {
            name: value
            for name, value in headers.items()
            if not self.headers or not name.lower().startswith(self.headers)
        }


GITHUB_ENTERPRISE_3_6 = OlderVersion(
    {
        # Unless its operator has enabled rate limits, whatever the version.
        "GET /rate_limit": "Rate limiting is not enabled.",
        "GET /user/ssh_signing_keys": "Not Found",
        "POST /user/ssh_signing_keys": "Not Found",
    },
    headers=("x-ratelimit-",),
)
GITLAB_15_0 = OlderVersion(
    {"GET /personal_access_tokens/self": "404 Not Found"},
    fields=frozenset({"alert_status", "disabled_until", "usage_type"}),
    headers=("ratelimit-",),
)
