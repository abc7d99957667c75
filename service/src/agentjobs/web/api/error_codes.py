"""Every error code over HTTP: its status, and what it means where the API can send it."""

from collections.abc import Mapping

_API: Mapping[str, tuple[int, str]] = {
    "bad_request": (400, "The request is not valid HTTP, or has no Host header or two."),
    "unauthorized": (401, "The token is missing, malformed, unknown, expired or revoked."),
    "insufficient_scope": (403, "The API key lacks the scope that the request needs."),
    "not_found": (404, "There is nothing at this path."),
    "method_not_allowed": (405, "The path does not accept this method; see `Allow`."),
    "headers_too_large": (431, "The request line and headers are larger than 64 KiB."),
    "rate_limited": (
        429,
        "The API key sends requests faster than allowed, or too many of them are open.",
    ),
    "internal_error": (500, "The service failed on this request."),
    "unavailable": (
        503,
        "The database is unavailable, or the service is shutting down; nothing changed.",
    ),
    "invalid_json": (400, "The body is not JSON in UTF-8, or not an object."),
    "validation_failed": (
        422,
        "A field or parameter is missing, of the wrong type or out of range.",
    ),
    "repo_not_connected": (422, "The repository is not connected to this organization."),
    "unknown_agent": (422, "There is no agent with this identifier."),
    "agent_not_found": (404, "There is no agent with this identifier."),
    "plan_required": (403, "The agent requires a higher plan."),
    "repo_not_found": (404, "There is no such repository in this organization."),
    "repo_indexing": (409, "The repository is still being indexed."),
    "queue_full": (429, "The organization has too many queued jobs."),
    "job_not_found": (404, "There is no such job in this organization."),
    "artifact_not_found": (404, "The job has no artifact with this name."),
    "diff_not_available": (404, "The job has no diff, or not yet."),
    "job_not_finished": (409, "The job is still queued or running."),
    "job_finished": (409, "The job is already completed, failed or cancelled."),
    "pull_not_found": (404, "There is no such pull request in this organization."),
    "pull_not_open": (409, "The pull request is merged or closed, or the job has none."),
    "pull_changed": (409, "The pull request has another head than the request expects."),
    "pull_not_mergeable": (
        409,
        (
            "The pull request conflicts with its base branch, is a draft, or its platform refuses "
            "to merge or close it."
        ),
    ),
    "vulnerability_not_found": (
        404,
        "There is no such vulnerability in this organization any more.",
    ),
    "forge_unavailable": (503, "The platform of the repository does not respond as it should."),
    "follow_up_active": (409, "Another job is working on this pull request."),
    "payload_too_large": (413, "The body is larger than 64 KiB."),
    "request_timeout": (408, "The body did not arrive in time."),
    "unsupported_media_type": (415, "The body is compressed, or not application/json in UTF-8."),
    "idempotency_key_reused": (422, "The Idempotency-Key was already used with another body."),
    "idempotency_in_progress": (
        409,
        "The first request with this Idempotency-Key is still running.",
    ),
}
# Codes of the dashboard, of git over HTTP and of platform hooks only.
_OTHERS: Mapping[str, int] = {
    "not_signed_in": 401,
    "sign_in_failed": 401,
    "wrong_password": 401,
    "foreign_origin": 403,
    "form_expired": 403,
    "https_required": 403,
    "managed_by_provider": 403,
    "role_required": 403,
    "organization_not_found": 404,
    "delivery_not_found": 404,
    "endpoint_not_found": 404,
    "key_not_found": 404,
    "member_not_found": 404,
    "secret_not_found": 404,
    "user_not_found": 404,
    "import_not_found": 404,
    "forge_not_found": 404,
    "tracker_not_found": 404,
    "fix_active": 409,
    "forge_in_use": 409,
    "key_revoked": 409,
    "name_taken": 409,
    "pull_elsewhere": 409,
    "not_fixable": 409,
    "not_signing": 409,
    "repo_connected": 409,
    "disk_quota_exceeded": 413,
    "forge_denied": 422,
    "forge_gone": 422,
    "forge_refused": 422,
    "forge_unauthorized": 422,
    "invalid_credential": 422,
    "invalid_signing": 422,
    "invalid_source": 422,
    "tracker_refused": 422,
    "too_many_attempts": 429,
    "too_many_imports": 429,
    "too_many_streams": 429,
    "provider_unavailable": 503,
    "repo_unavailable": 503,
}

# The codes of the API, as the OpenAPI document declares them.
API_ERRORS: Mapping[str, str] = {code: meaning for code, (_, meaning) in _API.items()}
STATUS_OF: Mapping[str, int] = {
    **{code: status for code, (status, _) in _API.items()},
    **_OTHERS,
}
