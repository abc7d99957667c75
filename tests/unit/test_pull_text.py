from typing import Any

from agentjobs.agents.report import Report
from agentjobs.jobs.claim import ClaimedJob
from agentjobs.jobs.pull_text import commit_message, from_commit_message, pull_text


def job(ticket_id: str | None = None, **override: Any) -> ClaimedJob:
    return ClaimedJob(
        id="job_x",
        organization="default",
        repo_id="repo_x",
        repo="a/b",
        repo_is_connected=True,
        platform="local",
        default_branch="main",
        repo_head="0" * 40,
        agent="fixer",
        ticket_id=ticket_id,
        config_override=override,
        fence=1,
        attempt=0,
        was_started_before=False,
        branch="agentjobs/fixer/x",
        credential="",
    )


def test_the_agents_report_gives_title_and_body() -> None:
    text = pull_text(job(), "Fixer", Report("Fix it", "Because."))
    assert (text.title, text.body) == ("Fix it", "Because.")


def test_a_title_in_the_request_wins_and_the_ticket_stands_before_it() -> None:
    text = pull_text(job("ABC-1", title="Mine"), "Fixer", Report("Theirs", ""))
    assert text.title == "ABC-1: Mine"
    assert "Ticket: ABC-1" in text.body


def test_without_a_report_there_is_still_a_title_and_a_body() -> None:
    text = pull_text(job(prompt="tidy up\nplease"), "Fixer", None)
    assert text.title == "Fixer: proposed changes"
    assert "> tidy up\n> please" in text.body


def test_a_title_is_one_line_of_bounded_length() -> None:
    text = pull_text(job(), "Fixer", Report("a\r\nb " + "x" * 500, ""))
    assert "\n" not in text.title
    assert len(text.title) == 200


def test_the_commit_message_gives_the_words_back() -> None:
    text = pull_text(job(), "Fixer", Report("Fix it", "One.\n\nJob: two."))
    message = commit_message(job(), text)
    assert message.endswith("\n\nJob: job_x\nAgent: fixer\n")
    assert from_commit_message(message) == text
