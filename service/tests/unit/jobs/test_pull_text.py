from typing import Any

from agentjobs.jobs.model import TicketDetails
from agentjobs.publishing.pull_text import (
    commit_message,
    has_trailers,
    parse_commit_message,
    pull_body,
    pull_text,
)
from agentjobs_runtime.agents.report import Report
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.verification import Verification


def job(ticket_id: str | None = None, **override: Any) -> ClaimedJob:
    return ClaimedJob(
        id="job_x",
        organization_id="org_x",
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


def test_the_agents_report_has_the_title_and_the_body() -> None:
    text = pull_text(job(), "Fixer", Report("Fix it", "Because."))
    assert (text.title, text.body) == ("Fix it", "Because.")


def test_a_requested_title_wins_and_is_prefixed_with_the_ticket() -> None:
    text = pull_text(job("ABC-1", title="Mine"), "Fixer", Report("Theirs", ""))
    assert text.title == "ABC-1: Mine"
    assert "Ticket: ABC-1" in text.body


def test_a_missing_report_still_gives_a_title_and_a_body() -> None:
    text = pull_text(job(prompt="tidy up\nplease"), "Fixer", None)
    assert text.title == "Fixer: proposed changes"
    assert "> tidy up\n> please" in text.body


def test_a_title_is_one_bounded_line() -> None:
    text = pull_text(job(), "Fixer", Report("a\r\nb " + "x" * 500, ""))
    assert "\n" not in text.title
    assert len(text.title) == 200


def test_the_text_is_parsed_back_from_the_commit_message() -> None:
    text = pull_text(job(), "Fixer", Report("Fix it", "One.\n\nJob: two."))
    message = commit_message(job(), text)
    assert message.endswith("\n\nJob: job_x\nAgent: fixer\n")
    assert parse_commit_message(message) == text


def test_a_co_author_is_named_among_the_trailers() -> None:
    text = pull_text(job(), "Fixer", Report("Fix it", "One.\n\nJob: two."))
    message = commit_message(job(), text, Identity("Ada", "ada@example.org"))
    trailers = "\n\nCo-authored-by: Ada <ada@example.org>\nJob: job_x\nAgent: fixer\n"
    assert message.endswith(trailers)
    assert parse_commit_message(message) == text
    assert has_trailers(job(), message)
    assert not has_trailers(job(), message.replace("job_x", "job_y"))
    assert parse_commit_message("Somebody's title\n\nAnd text.").body == ""


def checked(*, passed: bool, output: str = "") -> str:
    exit_code = 0 if passed else 2
    found = Verification(
        command="make test", passed=passed, exit_code=exit_code, duration_ms=1_250, output=output
    )
    return pull_body(
        job(), pull_text(job(), "Fixer", None), found, job_url="https://x/jobs/job_x", cost_usd=None
    )


def test_the_body_links_the_job_and_shows_its_cost() -> None:
    text = pull_text(job(), "Fixer", None)
    body = pull_body(job(), text, None, job_url="https://x/jobs/job_x", cost_usd=1.234)
    assert "[job job_x](https://x/jobs/job_x), agent fixer. Its models cost 1.23 USD." in body


def test_a_ticket_gives_the_title_and_is_linked() -> None:
    ticket = TicketDetails("Prices are wrong", "https://jira.example/browse/ABC-1", ("bug",))
    text = pull_text(job("ABC-1"), "Fixer", None, ticket)
    assert text.title == "ABC-1: Prices are wrong"
    assert "Ticket: ABC-1 (https://jira.example/browse/ABC-1)" in text.body


def test_an_agent_cannot_skip_ci() -> None:
    text = pull_text(
        job(), "Fixer", Report("Fix [skip ci] it", "a [CI skip]\nskip-checks: true\nb")
    )
    assert "skip" not in (text.title + text.body).lower()


def test_a_long_report_does_not_hide_the_signature() -> None:
    text = pull_text(job(), "Fixer", Report("Fix", "x" * 200_000))
    body = pull_body(job(), text, None, job_url="https://x/jobs/job_x", cost_usd=None)
    assert len(body) < 60_000
    assert "https://x/jobs/job_x" in body


def test_a_passed_verification_is_in_the_body() -> None:
    assert "**Verification** passed: `make test` succeeded after 1.2 s." in checked(passed=True)


def test_a_failed_verification_shows_its_last_lines_in_a_fence_they_cannot_close() -> None:
    body = checked(passed=False, output="```\nnot the end")
    assert "failed with exit code 2" in body
    assert "````\n```\nnot the end\n````" in body


def test_a_draft_begins_with_its_reasons_and_stays_one_in_the_commit_message() -> None:
    report = Report("Fix it", "Because.", ("The old set does not resolve.", "No network."))
    text = pull_text(job(), "Fixer", report)
    assert text.is_draft
    assert text.body.endswith("\n\n- The old set does not resolve.\n- No network.\n\nBecause.")
    assert parse_commit_message(commit_message(job(), text)).is_draft
    assert not pull_text(job(), "Fixer", Report("Fix it", "Because.")).is_draft
