"""Responses as types: times, nested types, and what a newer or an older service sends."""

import pickle
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from agentjobs.jobs.model import JobView
from agentjobs.web.api.examples import response_example
from agentjobs_client import (
    Client,
    Environment,
    Job,
    JobStatus,
    Phase,
    TicketDetails,
    UnexpectedAnswer,
    Usage,
    Verification,
)

JOB = response_example(JobView)


def read_job(document: object) -> Job:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=document))
    with Client("http://test", "ajk_x", transport=transport) as client:
        return client.job("job_1")


def test_a_job_has_times_with_a_zone_and_nested_types():
    job = read_job(JOB)
    assert job.created_at == datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
    assert job.completed_at is not None
    assert job.completed_at.utcoffset() == timedelta(0)
    assert isinstance(job.usage, Usage)
    assert isinstance(job.verification, Verification)
    assert isinstance(job.ticket, TicketDetails)
    assert isinstance(job.environment, Environment)
    assert isinstance(job.phases[0], Phase)
    assert job.is_finished
    assert job.is_completed


def test_the_raw_document_is_as_the_service_sent_it():
    document = {**JOB, "colour": "red"}
    assert read_job(document).raw == document
    assert pickle.loads(pickle.dumps(read_job(document))) == read_job(document)


def test_unknown_fields_and_values_of_a_newer_service_are_accepted():
    ticket = {"title": "t", "url": "u", "votes": 3}
    job = read_job({**JOB, "status": "paused", "pr_state": "queued", "ticket": ticket})
    assert job.status == "paused"
    assert not job.is_finished


def test_the_fields_of_the_specification_are_enough():
    job = read_job(
        {
            "job_id": "job_1",
            "status": JobStatus.RUNNING,
            "agent": "a",
            "pr_url": None,
            "pr_number": None,
            "started_at": "2026-01-31T09:30:00.020Z",
            "completed_at": None,
        }
    )
    assert (job.labels, job.warnings, job.elapsed) == ({}, (), None)


def test_elapsed_is_a_duration():
    assert read_job({**JOB, "elapsed_ms": 1500}).elapsed == timedelta(seconds=1.5)


@pytest.mark.parametrize("document", [[], {"job_id": 3}, {**JOB, "created_at": "yesterday"}])
def test_a_document_of_the_wrong_shape_is_reported(document):
    with pytest.raises(UnexpectedAnswer, match="upgrade this client"):
        read_job(document)


@pytest.mark.parametrize("body", [b"\xff\xfe", b"[" * 100_000, b"", b'{"job_id":'])
def test_a_body_that_is_not_json_is_reported(body):
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    with (
        Client("http://test", "ajk_x", transport=transport) as client,
        pytest.raises(UnexpectedAnswer, match="check that the address"),
    ):
        client.job("job_1")
