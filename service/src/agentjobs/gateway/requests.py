"""Reads an agent's HTTP request: its token and its endpoint."""

import hmac
from urllib.parse import unquote_to_bytes

from aiohttp import web

from agentjobs.gateway.endpoints import ENDPOINTS, Endpoint
from agentjobs_runtime.protocol.upstream import Api
from agentjobs_runtime.sandbox_http.errors import RequestRefused

MAX_QUERY = 1_024


def check_token(request: web.BaseRequest, token: str) -> None:
    given = request.headers.get("x-api-key") or ""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        given = value.strip() or given
    if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode()):
        raise RequestRefused(
            401, "invalid_api_key", "use the job's own key from its environment variable"
        )


def find_endpoint(request: web.BaseRequest, api: Api) -> Endpoint:
    endpoint = ENDPOINTS.get(request.path)
    if request.method == "POST" and endpoint is not None and endpoint.api == api:
        _check_query(request.rel_url.raw_query_string)
        return endpoint
    paths = [path for path, endpoint in ENDPOINTS.items() if endpoint.api == api]
    served = " and ".join(f"POST {path}" for path in paths)
    raise RequestRefused(404, "not_found", f"this gateway serves only {served}")


def _check_query(raw: str) -> None:
    if len(raw) > MAX_QUERY:
        raise RequestRefused(400, "invalid_request", "the query string is too long")
    if not raw.isascii() or any(byte < 0x20 or byte == 0x7F for byte in unquote_to_bytes(raw)):
        raise RequestRefused(400, "invalid_request", "the query string contains control characters")
