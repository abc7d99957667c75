"""What went wrong with an attempt, as a class for the log and a sentence for people.

Pure: it reads an error, or a status, and what is known of how far the attempt came.
"""

import errno
import ssl
from http import HTTPStatus
from typing import NamedTuple

from agentjobs.outbound.guard.addresses import BlockedAddress
from agentjobs.outbound.untrusted_http.connection import ClosedEarly
from agentjobs.outbound.untrusted_http.dial import NotResolved, Origin, ProxyRefused, Stage
from agentjobs.outbound.untrusted_http.response import BadAnswer, EndlessAnswer
from agentjobs.safe_text import escape_unprintable
from agentjobs.webhooks.model import ErrorClass

LONGEST_SENTENCE = 500

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class OutOfRoom(Exception):
    """This machine had no file or memory left for an attempt: nothing was sent, by no one's fault
    but its own."""


class Failure(NamedTuple):
    error_class: ErrorClass
    error: str


class Limits(NamedTuple):
    timeout_seconds: float
    connect_seconds: float


def is_success(status: int) -> bool:
    return 200 <= status < 300


def failure_of_status(status: int, reason: str | None, location: str | None) -> Failure:
    """Of one that is no success."""
    answered = f"the receiver answered {status} {reason or _phrase(status)}".rstrip()
    if not 300 <= status < 400:
        return _failure("http_status", answered)
    to = f" to {location}" if location else ""
    return _failure("redirect", f"{answered}{to}: redirects are not followed")


def is_out_of_room(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def failure_of_error(error: Exception, stage: Stage, origin: Origin, limits: Limits) -> Failure:
    """Of an attempt that got no head of an answer, and ended in that stage."""
    if isinstance(error, TimeoutError):
        return _of_lateness(stage, limits)
    match stage:
        case "exchange":
            return _of_exchange(error)
        case "tls":
            return _of_handshake(error)
        case _:
            return _of_connecting(error, origin)


def blocked(reason: str, *, is_tls: bool) -> Failure:
    hint = "" if is_tls else ", and http reaches nothing else"
    return _failure("blocked_address", f"{reason}{hint}")


def invalid(reason: str) -> Failure:
    return _failure("blocked_address", f"the address cannot be used: {reason}")


def unsendable() -> Failure:
    return _failure("protocol", "nothing was sent: a header has a line break or a NUL in it")


def _of_lateness(stage: Stage, limits: Limits) -> Failure:
    if stage == "exchange":
        words = f"no status line and headers came within {limits.timeout_seconds:g} seconds"
        return _failure("timeout", words)
    limit = f"within {limits.connect_seconds:g} seconds"
    if stage == "name":
        return _failure("dns", f"the name was not resolved {limit}")
    return _failure("timeout", f"no connection was made {limit}")


def _of_connecting(error: Exception, origin: Origin) -> Failure:
    words = _words(error)
    match error:
        case BlockedAddress():
            return blocked(words, is_tls=origin.tls is not None)
        case NotResolved():
            return _failure("dns", f"the name was not resolved: {words}")
        case ProxyRefused():
            return _failure("connect", words)
        case BadAnswer():
            return _failure("connect", f"the proxy's answer to CONNECT cannot be used: {words}")
    whom = "the proxy" if origin.proxy is not None else "the receiver"
    return _failure("connect", f"no connection to {whom} could be made: {words}")


def _of_handshake(error: Exception) -> Failure:
    match error:
        case ssl.SSLCertVerificationError():
            words = f"the certificate was not accepted: {_words(error)}"
        case ConnectionError():
            # TCP stood already: what is cut off is TLS.
            words = "the connection was cut during the TLS handshake"
        case _:
            words = f"the TLS handshake failed: {_words(error)}"
    return _failure("tls", words)


def _of_exchange(error: Exception) -> Failure:
    match error:
        case EndlessAnswer():
            words = f"the answer was given up: {error}"
        case BadAnswer():
            words = f"the answer is not HTTP as it should be: {error}"
        case ClosedEarly():
            words = "the connection was closed before an answer came"
        case ssl.SSLError():
            return _failure("tls", f"TLS failed: {_words(error)}")
        case OSError():
            words = f"the connection was cut before an answer came: {_words(error)}"
        case _:
            words = f"no answer could be read: {_words(error)}"
    return _failure("protocol", words)


def _words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message or str(error)
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or str(error) or type(error).__name__


def _failure(error_class: ErrorClass, sentence: str) -> Failure:
    # Receivers have their words in it, and it is shown on terminals.
    return Failure(error_class, escape_unprintable(sentence)[:LONGEST_SENTENCE])


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
