"""Addresses of a platform's API: escaping names and values, and resolving links and redirects.

Pure functions.
"""

from collections.abc import Mapping
from urllib.parse import quote

from yarl import URL

from agentjobs.platforms.protocol import PlatformError
from agentjobs_runtime.safe_text import replace_unstorable

Query = str | int | bool | None


def build_path(*parts: str | int) -> str:
    """Escape and join path segments. Raises PlatformError for a segment that cannot be a name."""
    names = [str(part) for part in parts]
    if any(name in {"", ".", ".."} for name in names):
        raise PlatformError(f"{'/'.join(names)!r} is not a valid name.", "gone")
    return "".join(f"/{quote(replace_unstorable(name), safe='')}" for name in names)


def repo_path(full_name: str) -> str:
    """Builds the path for GitHub and Gitea. Raises PlatformError for an invalid name."""
    owner, _, name = full_name.partition("/")
    return build_path("repos", owner, name)


def _quote_value(value: str | int | bool) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(replace_unstorable(text), safe="")


def build_url(base_url: str, path: str, query: Mapping[str, Query]) -> URL:
    """Parameters that are None are left out."""
    pairs = [
        f"{quote(name)}={_quote_value(value)}" for name, value in query.items() if value is not None
    ]
    query_string = f"?{'&'.join(pairs)}" if pairs else ""
    return URL(f"{base_url}{path}{query_string}", encoded=True)


def resolve_same_origin(origin: URL, url: URL, address: str) -> URL | None:
    """Resolve an address relative to `url`; None if it is invalid or on another origin."""
    try:
        target = url.join(URL(address, encoded=True)).with_fragment(None)
        return target if target.origin() == origin and target.user is None else None
    except ValueError:
        return None
