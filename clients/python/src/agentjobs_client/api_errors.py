"""One exception per error code of the service, named after the code."""

import re
from collections.abc import Mapping

from agentjobs_client.errors import ApiError


class BadRequest(ApiError):
    """The request is not valid HTTP."""


class Unauthorized(ApiError):
    """The API key is missing, malformed, unknown, expired or revoked."""


class InsufficientScope(ApiError):
    """The API key does not have the scope that this call needs."""


class NotSupported(ApiError):
    """The service does not have this endpoint: it is older, or the address is wrong."""


class NotFound(NotSupported):
    """There is nothing at this path."""


class MethodNotAllowed(NotSupported):
    """The path does not accept this method."""


class HeadersTooLarge(ApiError):
    """The request line and headers are too large."""


class RateLimited(ApiError):
    """The API key sends requests faster than allowed, or too many of them are open."""


class InternalError(ApiError):
    """The service failed on this request."""


class Unavailable(ApiError):
    """The service is temporarily unavailable; nothing changed."""


class InvalidJson(ApiError):
    """The body is not a JSON object."""


class ValidationFailed(ApiError):
    """A field or parameter is invalid; `details` lists them all."""


class RepoNotConnected(ApiError):
    """The repository is not connected to this organization."""


class UnknownAgent(ApiError):
    """A job was created for an agent that does not exist."""


class PlanRequired(ApiError):
    """The agent requires a higher plan."""


class RepoIndexing(ApiError):
    """The repository is still being indexed."""


class QueueFull(ApiError):
    """The organization has too many queued jobs."""


class RepoNotFound(ApiError):
    """There is no such repository in this organization."""


class AgentNotFound(ApiError):
    """There is no such agent."""


class JobNotFound(ApiError):
    """There is no such job in this organization."""


class JobFinished(ApiError):
    """The job is already completed, failed or cancelled."""


class JobNotFinished(ApiError):
    """The job is still queued or running."""


class DiffNotAvailable(ApiError):
    """The job has no diff."""


class ArtifactNotFound(ApiError):
    """The job has no artifact with this name."""


class PullNotFound(ApiError):
    """There is no such pull request in this organization."""


class VulnerabilityNotFound(ApiError):
    """There is no such vulnerability in this organization any more."""


class PullNotOpen(ApiError):
    """The pull request does not exist, or it is merged or closed."""


class PullChanged(ApiError):
    """The pull request has another head than the call expects."""


class PullNotMergeable(ApiError):
    """The pull request conflicts with its base branch, is a draft, or lacks an approval."""


class ForgeUnavailable(ApiError):
    """The platform of the repository does not respond as it should."""


class FollowUpActive(ApiError):
    """Another job is working on this pull request."""


class PayloadTooLarge(ApiError):
    """The request body is too large."""


class RequestTimeout(ApiError):
    """The request body did not arrive in time."""


class UnsupportedMediaType(ApiError):
    """The request body is not application/json in UTF-8."""


class IdempotencyKeyReused(ApiError):
    """The idempotency key was already used for a different request."""


class IdempotencyInProgress(ApiError):
    """The first request with this idempotency key is still running."""


def _error_code(kind: type[ApiError]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


BY_CODE: Mapping[str, type[ApiError]] = {
    _error_code(kind): kind
    for kind in (*ApiError.__subclasses__(), *NotSupported.__subclasses__())
    if kind is not NotSupported
}
