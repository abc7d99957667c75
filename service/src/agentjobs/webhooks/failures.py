"""Why an attempt failed: an error class for the log and a message for people.

Pure: reads an exception or a status, and the stage that the attempt had reached.
"""

import errno
import ssl
from http import HTTPStatus
from typing import NamedTuple

from agentjobs.webhooks.model import ErrorClass
from agentjobs.webhooks.untrusted_http.connection import ClosedEarly
from agentjobs.webhooks.untrusted_http.pool import Origin, ProxyRefused, Stage
from agentjobs.webhooks.untrusted_http.response import InvalidResponse, ResponseTooLarge
from agentjobs_runtime.outbound.guard.addresses import BlockedAddress
from agentjobs_runtime.outbound.guard.dial import NotResolved
from agentjobs_runtime.safe_text import escape_unprintable

MAX_MESSAGE_LENGTH = 500

_EXHAUSTION = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ResourcesExhausted(Exception):
    """This machine has no file descriptor or memory left for an attempt; nothing was sent."""


class Failure(NamedTuple):
    error_class: ErrorClass
    error: str


class Timeouts(NamedTuple):
    total_seconds: float
    connect_seconds: float


def is_success(status: int) -> bool:
    return 200 <= status < 300


def classify_status(status: int, reason: str | None, location: str | None) -> Failure:
    """Classifies a response that is not a success."""
    response = f"the receiver responded with {status} {reason or _phrase(status)}".rstrip()
    if not 300 <= status < 400:
        return _failure("http_status", response)
    target = f" to {location}" if location else ""
    return _failure("redirect", f"{response}{target}: redirects are not followed")


def is_resource_exhaustion(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in _EXHAUSTION


def classify_error(error: Exception, stage: Stage, origin: Origin, timeouts: Timeouts) -> Failure:
    """Classifies an attempt that ended in `stage` without a response head."""
    if isinstance(error, TimeoutError):
        return _classify_timeout(stage, timeouts)
    match stage:
        case "exchange":
            return _classify_exchange_error(error)
        case "tls":
            return _classify_tls_error(error)
        case _:
            return _classify_connect_error(error, origin)


def blocked_address(reason: str, *, is_tls: bool) -> Failure:
    note = "" if is_tls else ", and http is limited to these"
    return _failure("blocked_address", f"{reason}{note}")


def invalid_url(reason: str) -> Failure:
    return _failure("blocked_address", f"the URL is invalid: {reason}")


def malformed_request() -> Failure:
    return _failure("protocol", "nothing was sent: a header contains a line break or a NUL")


def _classify_timeout(stage: Stage, timeouts: Timeouts) -> Failure:
    if stage == "exchange":
        return _failure("timeout", f"no response headers within {timeouts.total_seconds:g} seconds")
    limit = f"within {timeouts.connect_seconds:g} seconds"
    if stage == "name":
        return _failure("dns", f"the host name was not resolved {limit}")
    return _failure("timeout", f"no connection {limit}")


def _classify_connect_error(error: Exception, origin: Origin) -> Failure:
    text = _error_text(error)
    match error:
        case BlockedAddress():
            return blocked_address(text, is_tls=origin.tls is not None)
        case NotResolved():
            return _failure("dns", f"the host name was not resolved: {text}")
        case ProxyRefused():
            return _failure("connect", text)
        case InvalidResponse():
            return _failure("connect", f"the proxy sent an invalid response to CONNECT: {text}")
    peer = "the proxy" if origin.proxy is not None else "the receiver"
    return _failure("connect", f"could not connect to {peer}: {text}")


def _classify_tls_error(error: Exception) -> Failure:
    match error:
        case ssl.SSLCertVerificationError():
            message = f"the certificate was not accepted: {_error_text(error)}"
        case ConnectionError():
            message = "the connection was closed during the TLS handshake"
        case _:
            message = f"the TLS handshake failed: {_error_text(error)}"
    return _failure("tls", message)


def _classify_exchange_error(error: Exception) -> Failure:
    match error:
        case ResponseTooLarge():
            message = f"the response was too large: {error}"
        case InvalidResponse():
            message = f"the response is not valid HTTP: {error}"
        case ClosedEarly():
            message = "the connection was closed before a response arrived"
        case ssl.SSLError():
            return _failure("tls", f"TLS failed: {_error_text(error)}")
        case OSError():
            message = f"the connection failed before a response arrived: {_error_text(error)}"
        case _:
            message = f"the response could not be read: {_error_text(error)}"
    return _failure("protocol", message)


def _error_text(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message or str(error)
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or str(error) or type(error).__name__


def _failure(error_class: ErrorClass, message: str) -> Failure:
    # The message may quote the receiver, and it is shown on terminals.
    return Failure(error_class, escape_unprintable(message)[:MAX_MESSAGE_LENGTH])


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
