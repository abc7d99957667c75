"""Problems with the encryption key, for pages of tenants."""

import logging

from agentjobs_runtime.problems import Problem

_log = logging.getLogger(__name__)


def for_page(problem: Problem) -> Problem:
    """The same problem, unless its message names paths on this host: only the log has that one."""
    if "sealing_key" not in problem.code:
        return problem
    _log.warning("cannot seal a secret: %s", problem.message)
    return Problem(
        "unavailable",
        "The service cannot encrypt secrets at the moment, so nothing was stored. Contact the "
        "operator; the reason is in the service's log.",
    )
