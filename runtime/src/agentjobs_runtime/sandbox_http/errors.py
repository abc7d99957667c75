"""Refusals of the gateway, in the error format of the API and with the service's own codes."""

from typing import Any

import msgspec

from agentjobs_runtime.upstream import Api


class RequestRefused(Exception):
    """A request was not forwarded; the message says what to do next."""

    def __init__(self, status: int, code: str, message: str, *, is_retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.is_retryable = is_retryable


_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
_OPENAI_TYPES = {402: "insufficient_quota", 429: "rate_limit_exceeded"}


def error_body(api: Api, refused: RequestRefused) -> bytes:
    error: dict[str, Any] = {"message": refused.message}
    if api == "anthropic":
        error |= {
            "type": _ANTHROPIC_TYPES.get(refused.status, "api_error"),
            "details": {"error_code": refused.code},
        }
        return msgspec.json.encode({"type": "error", "error": error})
    default = "server_error" if refused.status >= 500 else "invalid_request_error"
    kind = _OPENAI_TYPES.get(refused.status, default)
    return msgspec.json.encode(
        {"error": {**error, "type": kind, "param": None, "code": refused.code}}
    )
