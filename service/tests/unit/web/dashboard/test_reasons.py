"""Why jobs failed or wait, in words."""

from agentjobs.jobs.states import RETRYABLE
from agentjobs.web.dashboard.jobs.reasons import error_text, error_title, queue_reason_text


def test_every_error_has_a_title_and_says_what_to_do():
    for code in RETRYABLE:
        text = error_text(code)
        assert text.title
        assert "_" not in text.title
        assert text.advice or code == "cancelled"
    assert error_title("verification_failed") == "Checks failed"


def test_codes_of_a_later_version_have_words():
    assert error_text("solar_flare", is_retryable=True).title == "Solar flare"
    assert "again" in error_text("solar_flare", is_retryable=True).advice
    assert error_text("solar_flare").advice == ""
    assert queue_reason_text("solar_flare") == "Solar flare"
    assert queue_reason_text(None) == ""
