"""Jobs as resources."""

import json

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents

from agentjobs.jobs.logs.chunks import append_chunk
from service.tests.unit.web.mcp.clients import Connect
from service.tests.unit.web.service import Service


async def read(client: Client, uri: str) -> TextResourceContents:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content


async def test_recent_jobs_are_listed_and_read(service: Service, connect: Connect) -> None:
    created = [await service.create_job() for _ in range(2)]
    async with connect() as client:
        listed = (await client.list_resources()).resources
        assert [resource.uri for resource in listed] == [
            "agentjobs://jobs",
            *(f"agentjobs://jobs/{job_id}" for job_id in created[::-1]),
        ]
        job = json.loads((await read(client, listed[1].uri)).text)
        jobs = json.loads((await read(client, "agentjobs://jobs")).text)["jobs"]
    assert (job["job_id"], job["status"]) == (created[1], "queued")
    assert [each["job_id"] for each in jobs] == created[::-1]


async def test_a_log_is_a_resource(service: Service, connect: Connect) -> None:
    await service.create_job()
    job = await service.harness.claim()
    await append_chunk(service.harness.db, job, "hello\n")
    async with connect() as client:
        content = await read(client, f"agentjobs://jobs/{job.id}/log")
    assert (content.mime_type, content.text) == ("text/plain", "hello\n")


async def test_templates_name_what_a_job_has(connect: Connect) -> None:
    async with connect() as client:
        templates = (await client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == [
        "agentjobs://jobs/{job_id}",
        "agentjobs://jobs/{job_id}/log",
        "agentjobs://jobs/{job_id}/diff",
        "agentjobs://jobs/{job_id}/report",
    ]


@pytest.mark.parametrize(
    "uri",
    [
        "agentjobs://jobs/job_00000000000000000000000000",
        "agentjobs://jobs/job_00000000000000000000000000/log",
        "agentjobs://jobs/job_0/secrets",
        "agentjobs://jobs/../repos",
        "agentjobs://repos",
        "file:///etc/passwd",
        "x" * 5_000,
    ],
)
async def test_what_does_not_exist_is_an_error(connect: Connect, uri: str) -> None:
    async with connect() as client:
        with pytest.raises(MCPError, match="not_found") as caught:
            await client.read_resource(uri)
    assert len(caught.value.message) < 500
