"""What went wrong with an attempt, as a class for the log and a sentence for people.

Pure: it reads an error, or a status, and what is known of how far the attempt came.
"""

import errno
import ssl
from http import HTTPStatus
from typing import NamedTuple

import aiohttp

from agentjobs.outbound.addresses import BlockedAddress
from agentjobs.outbound.strangers import EndlessAnswer
from agentjobs.webhooks.model import ErrorClass

LONGEST_SENTENCE = 500

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class OutOfRoom(Exception):
    """This machine had no file or memory left for an attempt: nothing was sent, by no one's fault
    but its own."""


class Failure(NamedTuple):
    error_class: ErrorClass
    error: str


class Progress(NamedTuple):
    """How far an attempt came, and the limits it was held to."""

    is_dialled: bool
    is_sent: bool
    is_tls: bool
    connect_seconds: float
    timeout_seconds: float


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
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, OSError) and cause.errno in _NO_ROOM


def failure_of_error(error: Exception, progress: Progress) -> Failure:
    """Of an attempt that got no head of an answer."""
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return invalid(str(error))
    if isinstance(error, TimeoutError):
        return _of_lateness(progress)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        words = f"the proxy answered CONNECT with {error.status} {error.message}"
        return _failure("connect", words.rstrip())
    if progress.is_sent:
        return _of_exchange(error)
    return _of_connecting(error, progress)


def blocked(reason: str, *, is_tls: bool) -> Failure:
    hint = "" if is_tls else ", and http reaches nothing else"
    return _failure("blocked_address", f"{reason}{hint}")


def invalid(reason: str) -> Failure:
    return _failure("blocked_address", f"the address cannot be used: {reason}")


def _of_lateness(progress: Progress) -> Failure:
    if progress.is_sent:
        words = f"no status line and headers came within {progress.timeout_seconds:g} seconds"
        return _failure("timeout", words)
    limit = f"within {progress.connect_seconds:g} seconds"
    if progress.is_dialled:
        return _failure("timeout", f"no connection was made {limit}")
    return _failure("dns", f"the name was not resolved {limit}")


def _of_connecting(error: Exception, progress: Progress) -> Failure:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    words = _words(cause)
    match error, cause:
        case aiohttp.ClientConnectorCertificateError(), _:
            return _failure("tls", f"the certificate was not accepted: {words}")
        case aiohttp.ClientConnectorSSLError(), _:
            return _failure("tls", f"the TLS handshake failed: {words}")
        case _, BlockedAddress():
            return blocked(words, is_tls=progress.is_tls)
        case aiohttp.ClientConnectorDNSError(), _:
            return _failure("dns", f"the name was not resolved: {words}")
        # TCP itself is refused or gets no answer; cut off is only what already stands.
        case _, ConnectionResetError() | ConnectionAbortedError() if progress.is_tls:
            return _failure("tls", "the connection was cut during the TLS handshake")
    whom = "the proxy" if isinstance(error, aiohttp.ClientProxyConnectionError) else "the receiver"
    return _failure("connect", f"no connection to {whom} could be made: {words}")


def _of_exchange(error: Exception) -> Failure:
    match error:
        case EndlessAnswer():
            words = str(error)
        case aiohttp.ClientResponseError():
            words = f"the answer is not HTTP as it should be: {error.message}"
        case aiohttp.ServerDisconnectedError():
            words = "the connection was closed before an answer came"
        case OSError() if isinstance(error.__cause__, ssl.SSLError):
            return _failure("tls", f"TLS failed: {_words(error.__cause__)}")
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
    shown = "".join(each if each.isprintable() else _escaped(each) for each in sentence)
    return Failure(error_class, shown[:LONGEST_SENTENCE])


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
