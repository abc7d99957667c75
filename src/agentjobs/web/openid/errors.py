"""Why somebody could not sign in: plain words for the person, the reason for the log.

What a provider or a browser wrote is shown cut and without anything invisible.
"""

import logging

from agentjobs.problems import Problem
from agentjobs.safe_text import mask_unprintable

MOST_SHOWN_CHARACTERS = 200

_log = logging.getLogger(__name__)


def shown(text: str) -> str:
    return mask_unprintable(text[:MOST_SHOWN_CHARACTERS])


def sign_in_failed(message: str, reason: str) -> Problem:
    _log.warning("sign-in failed: %s", shown(reason))
    return Problem("sign_in_failed", message)


def begin_again(reason: str) -> Problem:
    return sign_in_failed(
        "This sign-in cannot be finished: it was begun too long ago, in another browser, or is "
        "finished already. Begin it again on the sign-in page.",
        reason,
    )


def unusable_answer(reason: str) -> Problem:
    return sign_in_failed(
        "The sign-in provider's answer cannot be used. Try again; if that does not help, the "
        "operator of this service finds the reason in its log.",
        reason,
    )


def refused_by_provider(error: str, description: str = "") -> Problem:
    """`error` is a code of OAuth 2; only that is shown, the description is logged."""
    return sign_in_failed(
        f"The sign-in provider refused: {shown(error)}. Try again; if that does not help, ask the "
        "operator of this service.",
        f"the provider refused: {shown(error)}: {description}",
    )


def provider_unavailable(reason: str) -> Problem:
    _log.warning("the sign-in provider is unavailable: %s", shown(reason))
    return Problem(
        "provider_unavailable",
        "The sign-in provider cannot be reached. Try again in a minute; if that does not help, "
        "the operator of this service finds the reason in its log.",
        retry_after_seconds=60,
    )
