from agentjobs.jobs.states import (
    CANCELLED,
    COMPLETED,
    FAILED,
    FINAL,
    QUEUED,
    RETRYABLE,
    RUNNING,
    STATUSES,
    TRANSITIONS,
    list_sources,
)


def test_every_status_is_in_the_transition_table() -> None:
    assert set(TRANSITIONS) == set(STATUSES)


def test_completed_failed_and_cancelled_are_final() -> None:
    assert {COMPLETED, FAILED, CANCELLED} == FINAL


def test_a_job_completes_only_from_running() -> None:
    assert list_sources(COMPLETED) == (RUNNING,)


def test_a_job_runs_only_from_the_queue_and_returns_only_from_running() -> None:
    assert list_sources(RUNNING) == (QUEUED,)
    assert list_sources(QUEUED) == (RUNNING,)


def test_every_error_code_is_retryable_or_not() -> None:
    decided = (
        "no_changes agent_failed timeout budget_exceeded cancelled worker_lost push_rejected"
        " forge_error repo_unavailable sandbox_error ticket_not_found protected_path unsafe_change"
        " verification_failed still_vulnerable invalid_configuration environment_failed"
    )
    assert set(RETRYABLE) == set(decided.split())
