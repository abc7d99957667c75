"""The tools over HTTP, called by the client of the package `mcp`, in both forms of the protocol."""

import jsonschema_rs
import pytest

from agentjobs.jobs.logs.chunks import append_chunk
from agentjobs.web.mcp.arguments import MAX_LOG_BYTES
from service.tests.unit.web.mcp.clients import (
    Connect,
    call_tool,
    call_with_document,
    error_code,
    text_of,
)
from service.tests.unit.web.service import JOB, Service

TOOLS = (
    *("list_agents", "list_repos", "create_job", "get_job", "list_jobs", "watch_job", "cancel_job"),
    *("follow_up_job", "retry_job", "read_log", "read_steps", "read_diff", "read_report"),
)
CHANGING = {"create_job", "cancel_job", "follow_up_job", "retry_job"}
UNKNOWN = "job_00000000000000000000000000"


async def test_a_job_is_created_found_read_and_cancelled(
    service: Service, connect: Connect
) -> None:
    async with connect() as client:
        agents = (await call_tool(client, "list_agents"))["agents"]
        repos = (await call_tool(client, "list_repos"))["repos"]
        assert (agents[0]["id"], repos[0]["full_name"]) == (JOB["agent"], JOB["repo"])
        receipt = await call_tool(client, "create_job", **JOB, prompt="Fix it.", ticket_id="T-1")
        assert receipt["status"] == "queued"
        job_id = receipt["job_id"]
        job = await call_tool(client, "get_job", job_id=job_id)
        assert (job["ticket_id"], job["pr_url"], job["is_final"]) == ("T-1", None, False)
        (listed,) = (await call_tool(client, "list_jobs", repo=JOB["repo"]))["jobs"]
        assert listed["job_id"] == job_id
        assert (await call_tool(client, "cancel_job", job_id=job_id))["status"] == "cancelled"
        assert (
            error_code(await client.call_tool("cancel_job", {"job_id": job_id})) == "job_finished"
        )


async def test_prompt_and_config_become_overrides(service: Service, connect: Connect) -> None:
    config = {"draft": True, "timeout_seconds": 60, "own key": [1]}
    async with connect() as client:
        receipt = await call_tool(client, "create_job", **JOB, prompt="Fix it.", config=config)
    row = await service.harness.db.fetch_one(
        "SELECT config_override FROM jobs WHERE id = :id", id=receipt["job_id"]
    )
    assert row is not None
    assert row["config_override"] == (
        '{"draft":true,"timeout_seconds":60,"own key":[1],"prompt":"Fix it."}'
    )


async def test_pages_continue_after_their_cursor(service: Service, connect: Connect) -> None:
    created = [await service.create_job() for _ in range(3)]
    async with connect() as client:
        first = await call_tool(client, "list_jobs", limit=2)
        rest = await call_tool(client, "list_jobs", limit=2, cursor=first["next_cursor"])
    listed = [job["job_id"] for page in (first, rest) for job in page["jobs"]]
    assert (listed, rest["next_cursor"]) == (created[::-1], None)


async def test_agents_are_described() -> None:
    agent = {"name": "Name", "available": True, "plan_required": "free"}
    agents = [
        {**agent, "id": "a", "description": "Finds bugs.", "result": "report"},
        {**agent, "id": "b", "available": False, "plan_required": "pro"},
    ]
    result = await call_with_document({"agents": agents}, "list_agents")
    assert result.structured_content == {"agents": agents}
    assert text_of(result) == (
        "- a: Finds bugs. (writes a report instead of a pull request)\n"
        "- b: Name (not available: needs the plan pro)"
    )


async def test_what_the_api_ignored_is_named() -> None:
    page = {"jobs": [], "next_cursor": None, "warnings": ["`sort` was ignored."]}
    result = await call_with_document(page, "list_jobs")
    assert result.structured_content["warnings"] == page["warnings"]
    assert text_of(result) == "No jobs found.\nWarning: `sort` was ignored."


async def test_jobs_of_a_filter_that_the_api_ignored_are_not_returned() -> None:
    page = {"jobs": [], "next_cursor": None, "warnings": ["`label.x` was ignored."]}
    result = await call_with_document(page, "list_jobs", labels={"x": "y"})
    assert error_code(result) == "filter_ignored"
    assert "`label.x` was ignored." in text_of(result)


async def test_a_prompt_may_be_json_and_null_is_as_good_as_nothing(
    service: Service, connect: Connect
) -> None:
    async with connect() as client:
        arguments = {**JOB, "prompt": '{"fix": null}', "ticket_id": None, "config": None}
        receipt = await call_tool(client, "create_job", **arguments)
        job = await call_tool(client, "get_job", job_id=receipt["job_id"])
    assert (job["config_override"], job["ticket_id"]) == ({"prompt": '{"fix": null}'}, None)


async def test_a_label_may_be_empty(service: Service, connect: Connect) -> None:
    await service.create_job()
    async with connect() as client:
        created = await call_tool(client, "create_job", **JOB, labels={"team": ""})
        found = await call_tool(client, "list_jobs", labels={"team": ""})
    assert [job["job_id"] for job in found["jobs"]] == [created["job_id"]]


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "read_log"])
@pytest.mark.parametrize("document", [{}, [], None])
async def test_a_document_that_is_not_the_services_is_an_error(tool: str, document: object) -> None:
    given = {"create_job": JOB, "follow_up_job": {"job_id": "job_1", "prompt": "x"}}
    arguments = {} if tool.startswith("list_") else given.get(tool, {"job_id": "job_1"})
    result = await call_with_document(document, tool, **arguments)
    assert error_code(result) == "unexpected_response"
    assert "unexpected document" in text_of(result)


@pytest.mark.parametrize(
    ("tool", "arguments", "faults"),
    [
        ("get_job", {}, {"job_id"}),
        ("get_job", {"job_id": "../repos", "more": 1}, {"job_id", "more"}),
        ("create_job", {"repo": 1, "agent": "fixer"}, {"repo"}),
        ("create_job", {**JOB, "prompt": ""}, {"prompt"}),
        ("create_job", {**JOB, "config": {"draft": "yes"}}, {"config.draft"}),
        (
            "watch_job",
            {"job_id": UNKNOWN, "until": "noon", "wait_seconds": 1e9},
            {"until", "wait_seconds"},
        ),
        ("read_log", {"job_id": UNKNOWN, "max_bytes": MAX_LOG_BYTES + 1}, {"max_bytes"}),
        # The API itself finds these.
        ("create_job", {**JOB, "repo": "no slash"}, {"repo"}),
        ("list_jobs", {"cursor": "x"}, {"cursor"}),
        ("list_jobs", {"labels": {"no key": "x"}}, {"label.no key"}),
    ],
)
async def test_wrong_arguments_are_all_named(
    connect: Connect, tool: str, arguments: dict[str, object], faults: set[str]
) -> None:
    async with connect() as client:
        result = await client.call_tool(tool, arguments)
    assert error_code(result) == "validation_failed"
    details = result.structured_content["error"]["details"]
    assert {fault["field"] for fault in details} == faults
    assert all(f"- {fault}: " in text_of(result) for fault in faults)


async def test_a_key_that_may_only_read_sees_only_reading_tools(
    service: Service, connect: Connect
) -> None:
    job_id = await service.create_job()
    async with connect(await service.key(scope="read")) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == set(TOOLS) - CHANGING
        assert (await call_tool(client, "get_job", job_id=job_id))["status"] == "queued"
        for tool, arguments in (("create_job", JOB), ("cancel_job", {"job_id": job_id})):
            assert error_code(await client.call_tool(tool, arguments)) == "insufficient_scope"


async def test_jobs_of_another_organization_do_not_exist(
    service: Service, connect: Connect
) -> None:
    job_id = await service.create_job()
    await service.harness.organization("other")
    async with connect(await service.key("other")) as client:
        assert (await call_tool(client, "list_jobs"))["jobs"] == []
        for tool in ("get_job", "watch_job", "cancel_job", "read_log", "read_steps", "read_report"):
            result = await client.call_tool(tool, {"job_id": job_id})
            unknown = await client.call_tool(tool, {"job_id": UNKNOWN})
            assert error_code(result) == error_code(unknown) == "job_not_found"
            assert text_of(result).replace(job_id, UNKNOWN) == text_of(unknown)
        resources = (await client.list_resources()).resources
        assert [resource.name for resource in resources] == ["jobs"]


async def test_only_the_end_of_a_log_is_read(service: Service, connect: Connect) -> None:
    await service.create_job()
    job = await service.harness.claim()
    for number in range(200):
        await append_chunk(service.harness.db, job, f"line {number} é\n")
    async with connect() as client:
        end = await call_tool(client, "read_log", job_id=job.id, max_bytes=30)
        whole = await call_tool(client, "read_log", job_id=job.id)
    assert (end["log"], end["truncated"]) == ("line 198 é\nline 199 é\n", True)
    assert (len(whole["log"].splitlines()), whole["truncated"]) == (200, False)


async def test_every_tool_says_what_it_does_and_takes(connect: Connect) -> None:
    async with connect() as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == list(TOOLS)
    for tool in tools:
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (tool.name not in CHANGING)
        assert tool.annotations.destructive_hint is (tool.name == "cancel_job")
        assert tool.input_schema["additionalProperties"] is False
        jsonschema_rs.meta.validate(tool.input_schema)
        assert "$ref" not in str(tool.input_schema)
        assert all("description" in field for field in tool.input_schema["properties"].values())


async def test_an_unknown_tool_is_an_error_of_the_protocol(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(Exception, match="There is no tool 'merge_everything'"):
            await client.call_tool("merge_everything", {})
