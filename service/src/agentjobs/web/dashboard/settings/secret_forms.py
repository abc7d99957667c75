"""What the forms for secrets share: their values and their problems."""

import logging

from agentjobs.web.dashboard.forms import Form
from agentjobs_runtime.problems import Problem

_log = logging.getLogger(__name__)


def read_value(form: Form) -> str:
    # Copying often adds whitespace around a key.
    value = form.raw("value").strip()
    if not value:
        raise Problem("invalid_secret", "Enter a value for the secret.")
    return value


def for_page(problem: Problem) -> Problem:
    """Only the log has a message that names paths on this host."""
    if problem.code == "secret_not_found":
        return Problem("not_found", "That secret no longer exists. Nothing was removed.")
    if "sealing_key" not in problem.code:
        return problem
    _log.warning("cannot seal a secret: %s", problem.message)
    return Problem(
        "unavailable",
        "The service cannot encrypt secrets at the moment, so nothing was stored. Contact the "
        "operator; the reason is in the service's log.",
    )
