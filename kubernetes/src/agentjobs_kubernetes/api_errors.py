"""What an error of the API server means: wait and ask again, or say what is wrong."""

import contextlib
import re
import ssl

import httpx2
import msgspec
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.models.meta_v1 import Status

from agentjobs_worker.sandbox.protocol import SandboxError, SandboxUnavailable

# Whatever a request raises if the answer is missing, an error or unreadable. A KeyError: lightkube
# expects a content type in every answer. A TypeError: and a token of the program that prints one.
API_ERRORS = (httpx2.HTTPError, ConfigError, ValueError, KeyError, TypeError, ssl.SSLError, OSError)

_MAX_RETRY_AFTER = 60.0
_NOT_PERMITTED = re.compile(
    r'[Uu]ser "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)"'
)
_IN_DELETION = "because it is being terminated"
# Refusals that end without a change of the request.
_TEMPORARY_REFUSALS = (
    *("exceeded quota", "status unknown for quota", "error looking up service account"),
    # An API server without its database, or one that has just started.
    *("error enforcing limit ranges", "not yet ready to handle request"),
)


def status_code(error: Exception) -> int:
    """0 if there was no answer."""
    if isinstance(error, ApiError):
        return error.status.code or 0
    if isinstance(error, httpx2.HTTPStatusError):
        return error.response.status_code
    return 0


def is_outage(error: Exception) -> bool:
    """The same request may succeed later."""
    code = status_code(error)
    return code in (0, 408, 429) or code >= 500 or is_temporary_refusal(error)


def is_refusal(error: Exception) -> bool:
    """A missing permission or a wrong credential; a server that starts may say so for a moment."""
    code = status_code(error)
    if code != 403:
        return code == 401
    return not _has_body(error) or _NOT_PERMITTED.search(read_message(error)) is not None


def is_temporary_refusal(error: Exception) -> bool:
    return status_code(error) == 403 and any(
        text in read_message(error) for text in _TEMPORARY_REFUSALS
    )


def retry_after(error: Exception) -> float:
    """How long the API server asked to wait; 0 if it did not."""
    response = getattr(error, "response", None)
    if response is None:
        return 0
    with contextlib.suppress(ValueError):
        return min(float(response.headers.get("Retry-After", "")), _MAX_RETRY_AFTER)
    return 0


def read_message(error: Exception) -> str:
    if isinstance(error, ApiError):
        return error.status.message or error.status.reason or "no message"
    if isinstance(error, httpx2.HTTPStatusError):
        return _status_message(error.response) or f"HTTP status {error.response.status_code}"
    if isinstance(error, msgspec.MsgspecError | KeyError):
        return "the answer is not that of a Kubernetes API server"
    return str(error) or type(error).__name__


def explain(error: Exception, action: str, namespace: str) -> SandboxError:
    """`action` is what was tried, such as "create a pod"."""
    code, message = status_code(error), read_message(error)
    if code == 401:
        return SandboxUnavailable(
            f"the Kubernetes API server does not accept this worker's credential: {message}. "
            "Check the service account of the worker, or KUBECONFIG."
        )
    match = _NOT_PERMITTED.search(message)
    if code == 403 and match:
        return SandboxUnavailable(
            f"this worker may not {action}: {match['user']} needs the permission to "
            f"{match['verb']} {match['resource']} in the namespace {namespace}. "
            "Add it to the worker's Role; the Helm chart has the whole list."
        )
    if problem := _namespace_problem(code, message, namespace):
        return SandboxUnavailable(problem)
    if code == 403 and not _has_body(error):
        return SandboxUnavailable(
            f"this worker may not {action} in the namespace {namespace}. Add the permission to its "
            "Role; the Helm chart has the whole list."
        )
    if code in (403, 400, 422):
        return SandboxError(f"the cluster refuses to {action}: {message}")
    return SandboxError(f"this worker could not {action}: {message}")


def _namespace_problem(code: int, message: str, namespace: str) -> str:
    """Empty if the namespace is there."""
    if code == 404 and f'namespaces "{namespace}" not found' in message:
        return (
            f"the namespace {namespace} does not exist. Create it with "
            f"`kubectl create namespace {namespace}`, or set kubernetes_namespace."
        )
    if code == 403 and _IN_DELETION in message:
        return (
            f"the namespace {namespace} is being deleted. When it is gone, create it again, or set "
            "kubernetes_namespace."
        )
    return ""


def _has_body(error: Exception) -> bool:
    """lightkube does not read that of a watch."""
    response = getattr(error, "response", None)
    return response is None or response.is_stream_consumed


def _status_message(response: httpx2.Response) -> str:
    """lightkube reads it only if the content type has no parameters, which proxies may add."""
    try:
        return msgspec.json.decode(response.content, type=Status).message or ""
    except (msgspec.MsgspecError, httpx2.StreamError):
        return ""
