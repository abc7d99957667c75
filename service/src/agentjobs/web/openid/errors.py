"""Sign-in errors: a message for the user, and the reason for the log.

Text from the provider or the browser is shortened and stripped of invisible characters.
"""

import logging

from agentjobs_runtime.problems import Problem
from agentjobs_runtime.safe_text import mask_unprintable

MAX_SHOWN_CHARACTERS = 200

_log = logging.getLogger(__name__)


def shorten(text: str) -> str:
    return mask_unprintable(text[:MAX_SHOWN_CHARACTERS])


def sign_in_failed(message: str, reason: str) -> Problem:
    _log.warning("sign-in failed: %s", shorten(reason))
    return Problem("sign_in_failed", message)


def sign_in_expired(reason: str) -> Problem:
    return sign_in_failed(
        "This sign-in cannot be completed: it expired, was started in another browser, or is "
        "already complete. Start again on the sign-in page.",
        reason,
    )


def invalid_response(reason: str) -> Problem:
    return sign_in_failed(
        "The sign-in provider's response is not valid. Try again; if the problem persists, contact "
        "the operator of this service, whose log has the reason.",
        reason,
    )


def provider_error(error: str, description: str = "") -> Problem:
    """Shows the OAuth error code; the description is only logged."""
    return sign_in_failed(
        f"The sign-in provider returned an error: {shorten(error)}. Try again; if the problem "
        "persists, contact the operator of this service.",
        f"the provider returned {shorten(error)}: {description}",
    )


def provider_unavailable(reason: str) -> Problem:
    _log.warning("the sign-in provider is unavailable: %s", shorten(reason))
    return Problem(
        "provider_unavailable",
        "The sign-in provider cannot be reached. Try again in a minute; if the problem persists, "
        "contact the operator of this service, whose log has the reason.",
        retry_after_seconds=60,
    )
