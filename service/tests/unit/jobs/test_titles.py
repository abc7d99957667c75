"""The titles of jobs."""

import pytest

from agentjobs.jobs.model import TicketDetails
from agentjobs.jobs.views.titles import choose_title
from agentjobs_runtime.protocol.cause import Cause

TICKET = TicketDetails("Totals are wrong", "https://tracker.example.com/1")
CAUSE = Cause("PyPI", "requests", ("2.30.0",), "requirements.txt", "2.31.0", ())


@pytest.mark.parametrize(
    ("title", "prompt", "ticket", "cause", "shown"),
    [
        ("Round", "Round the prices", TICKET, CAUSE, "Round"),
        (" ", "Round the prices", TICKET, CAUSE, "Totals are wrong"),
        (None, "\n## Round the prices\n\nAll of them.", None, CAUSE, "Round the prices"),
        (None, "#12 is a bug", None, None, "#12 is a bug"),
        (None, "x" * 300, None, None, "x" * 200),
        (7, {"not": "text"}, None, CAUSE, "Upgrade requests to 2.31.0"),
        (None, None, None, None, None),
    ],
)
def test_the_title_is_the_first_text_that_says_what_was_asked_for(
    title: object, prompt: object, ticket: TicketDetails | None, cause: Cause | None, shown: str
) -> None:
    assert choose_title(title, prompt, ticket, cause) == shown
