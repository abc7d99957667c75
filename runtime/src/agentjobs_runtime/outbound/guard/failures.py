"""Why a connection of a guarded session failed, in words for operators."""

import os
import ssl

import aiohttp


def describe_failure(error: Exception) -> str:
    """The reason of the system or the address guard, which aiohttp's own message omits."""
    cause: BaseException = error
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not accepted ({cause.verify_message or cause}); if it is of your"
            " own authority, name that in AGENTJOBS_CA_FILE"
        )
    is_of_system = isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError)
    if is_of_system and (number := getattr(cause, "errno", None) or 0) > 0:
        # Python's own message names its functions.
        return os.strerror(number)
    if isinstance(cause, TimeoutError):
        return str(cause) or "no response in time"
    return str(cause) or type(cause).__name__
