"""Addresses of a platform's API, whatever characters the names in them have. Pure."""

from collections.abc import Mapping
from urllib.parse import quote

from yarl import URL

from agentjobs.forges.protocol import ForgeError
from agentjobs.safe_text import replace_unstorable

Query = str | int | bool | None


def path_of(*parts: str | int) -> str:
    """`/a/b/c`, whatever characters the parts have. Raises ForgeError for what is no name."""
    names = [str(part) for part in parts]
    if any(name in {"", ".", ".."} for name in names):
        raise ForgeError(f"{'/'.join(names)!r} is no name of anything on a platform.", "gone")
    return "".join(f"/{quote(replace_unstorable(name), safe='')}" for name in names)


def _written(value: str | int | bool) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(replace_unstorable(text), safe="")


def address_of(base_url: str, path: str, query: Mapping[str, Query]) -> URL:
    """What is None in the query is left out."""
    pairs = [f"{quote(name)}={_written(it)}" for name, it in query.items() if it is not None]
    asked = f"?{'&'.join(pairs)}" if pairs else ""
    return URL(f"{base_url}{path}{asked}", encoded=True)


def same_origin(origin: URL, url: URL, address: str) -> URL | None:
    """Where an address leads to that was found at `url`; None: elsewhere, or nowhere."""
    try:
        target = url.join(URL(address, encoded=True)).with_fragment(None)
        return target if target.origin() == origin and target.user is None else None
    except ValueError:
        return None
