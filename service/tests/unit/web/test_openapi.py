"""The OpenAPI document is valid and complete and matches its examples; the docs page renders it."""

import json
import re
from typing import Any

import jsonschema_rs
import msgspec
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from starlette.routing import Route

from agentjobs.connections.validate import PLATFORMS
from agentjobs.jobs.states import RETRYABLE, STATUSES
from agentjobs.web.api.error_codes import API_ERRORS, STATUS_OF
from agentjobs.web.api.examples import PENDING_WEBHOOK_SECRET, WEBHOOK_SECRET
from agentjobs.web.api.openapi import build_document
from agentjobs.web.api.operations import BASE, OPERATIONS, routes
from agentjobs.webhooks.events import EVENTS
from agentjobs_client import verify_webhook
from agentjobs_dependencies.advisories.severity import LEVELS
from scripts import openapi
from service.tests.unit.web.service import Service

DOCUMENT = build_document(OPERATIONS, base=BASE)
CONTENTS = {
    f"{operation['operationId']}-{status}-{media_type}": content
    for methods in DOCUMENT["paths"].values()
    for operation in methods.values()
    for status, part in [*operation["responses"].items(), ("in", operation.get("requestBody", {}))]
    for media_type, content in part.get("content", {}).items()
} | {
    f"{name}-{media_type}": content
    for name, part in DOCUMENT["components"]["responses"].items()
    for media_type, content in part["content"].items()
}


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*map(references, value.values()))
    if isinstance(value, list):
        return set().union(*map(references, value))
    return set()


def validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    root = {**schema, "components": DOCUMENT["components"]}
    return jsonschema_rs.Draft202012Validator(root)


def test_the_file_of_the_document_is_current() -> None:
    """Run `make openapi` after a change of the interface."""
    assert openapi.PATH.read_text(encoding="utf-8") == openapi.render()


def test_the_document_is_valid_openapi() -> None:
    assert [error.message for error in OPENAPI_31_VALIDATOR.iter_errors(DOCUMENT)] == []


def test_every_reference_resolves() -> None:
    for reference in references(DOCUMENT):
        target = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]


def test_components_have_public_names() -> None:
    """Add names to `_PUBLIC_NAMES`: generated clients use them."""
    names = DOCUMENT["components"]["schemas"]
    assert [name for name in names if name.endswith(("View", "Document", "Fields"))] == []


def test_every_component_is_used_and_described() -> None:
    used = {reference.rsplit("/", 1)[1] for reference in references(DOCUMENT)}
    assert set(DOCUMENT["components"]["schemas"]) <= used
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field, field_schema in schema["properties"].items():
            assert "description" in field_schema or references(field_schema), f"{name}.{field}"


def test_every_content_has_examples_and_they_match_its_schema() -> None:
    faults = []
    for name, content in CONTENTS.items():
        examples = [each["value"] for each in content.get("examples", {}).values()]
        examples += [content["example"]] if "example" in content else []
        if not examples:
            faults.append((name, "no example"))
        schema = validator(content["schema"])
        faults += [
            (name, error.message) for example in examples for error in schema.iter_errors(example)
        ]
    assert faults == []


def test_every_path_parameter_is_described() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            described = {
                each["name"] for each in operation.get("parameters", []) if each["in"] == "path"
            }
            assert described == set(re.findall(r"{(\w+)}", path))


def test_every_parameter_has_an_example_that_matches_its_schema() -> None:
    """Add examples of query parameters to `examples.QUERY_VALUES`."""
    faults = []
    for section in ("paths", "webhooks"):
        for methods in DOCUMENT[section].values():
            for operation in methods.values():
                for each in operation.get("parameters", []):
                    name = f"{operation['operationId']}: {each['name']}"
                    if "example" not in each:
                        faults.append(f"{name} has no example")
                    elif not validator(each["schema"]).is_valid(each["example"]):
                        faults.append(f"{name} has an invalid example")
    assert faults == []


def test_every_event_is_described_with_an_example_that_verifies() -> None:
    assert set(DOCUMENT["webhooks"]) == set(EVENTS)
    for event, methods in DOCUMENT["webhooks"].items():
        operation = methods["post"]
        headers = {each["name"]: str(each["example"]) for each in operation["parameters"]}
        content = operation["requestBody"]["content"]["application/json"]
        assert list(validator(content["schema"]).iter_errors(content["example"])) == []
        sent_at = float(headers["webhook-timestamp"])
        for secret in (WEBHOOK_SECRET, PENDING_WEBHOOK_SECRET):
            body = msgspec.json.encode(content["example"])
            verified = verify_webhook(body, headers, secret, clock=lambda at=sent_at: at)
            assert verified.event == event == headers["X-Service-Event"]


def test_every_error_of_the_api_is_explained() -> None:
    used = {code for operation in OPERATIONS for code in operation.all_errors}
    assert used <= set(API_ERRORS) <= set(STATUS_OF)


def test_fields_of_responses_are_always_present() -> None:
    """Except details of errors, what a request may override, and warnings about the request."""
    optional = {
        f"{name}.{field}"
        for name, schema in DOCUMENT["components"]["schemas"].items()
        for field in schema["properties"]
        if field not in {*schema["required"], "warnings"}
        and not name.endswith(("Request", "ConfigOverride"))
    }
    assert optional == {"Error.details"}


def test_enumerations_in_responses_are_extensible() -> None:
    """Clients are told to accept unknown values, so no field of a response is a closed list."""
    requests = {"CreateJobRequest", "MergePullRequest", "ConfigOverride", "FollowUpRequest"}
    requests |= {"DismissRequest"}
    schemas = DOCUMENT["components"]["schemas"]
    responses = {name: schema for name, schema in schemas.items() if name not in requests}
    assert '"enum"' not in json.dumps(responses)
    known = {
        f"{name}.{field}": set(field_schema["x-extensible-enum"])
        for name, schema in responses.items()
        for field, field_schema in schema["properties"].items()
        if "x-extensible-enum" in field_schema
    }
    assert known["Job.status"] == known["Receipt.status"] == set(STATUSES)
    assert known["JobError.code"] == set(RETRYABLE)
    assert known["Event.event"] == known["WebhookPayload.event"] == set(EVENTS)
    assert known["Repository.platform"] == {"local", *PLATFORMS}
    assert known["Job.queue_reason"] == {
        "paused",
        "plan_limit",
        "repo_limit",
        "agent_limit",
        "platform_unreachable",
        "platform_refused",
        "tracker_unreachable",
        "environment_building",
        "no_worker",
        "disk_full",
    }
    assert known["DependencyAdvisory.severity"] == known["CausingAdvisory.severity"] == set(LEVELS)


async def test_every_route_is_in_the_document(service: Service) -> None:
    paths = {route.path_format for route in routes(service.context) if isinstance(route, Route)}
    assert paths == {BASE + path for path in DOCUMENT["paths"]}


async def test_the_document_is_served_to_everyone(service: Service) -> None:
    del service.http.headers["Authorization"]
    response = await service.get("/v1/openapi.json")
    assert response.headers["content-type"] == "application/json"
    assert response.json() == DOCUMENT
    tag = response.headers["etag"]
    repeated = await service.get("/v1/openapi.json", headers={"If-None-Match": tag})
    assert (repeated.status_code, repeated.content) == (304, b"")


async def test_real_responses_match_their_schemas(service: Service) -> None:
    job = await service.create_job(ticket_id="T-1")
    await service.post(f"/v1/jobs/{job}/cancel")
    schemas = {
        "/v1/agents": "AgentList",
        "/v1/agents/fixer": "AgentDetails",
        "/v1/me": "Caller",
        "/v1/usage?group_by=day": "UsageReport",
        "/v1/repos/acme/shop": "Repository",
        "/v1/repos": "RepoList",
        "/v1/jobs": "JobList",
        f"/v1/jobs/{job}": "Job",
        f"/v1/jobs/{job}/events": "EventList",
        "/v1/jobs/none": "ErrorResponse",
        "/v1/jobs?limit=0": "ErrorResponse",
    }
    for path, name in schemas.items():
        value = (await service.get(path)).json()
        reference = {"$ref": f"#/components/schemas/{name}"}
        assert list(validator(reference).iter_errors(value)) == [], path


async def test_the_docs_page_loads_nothing_from_outside(service: Service) -> None:
    del service.http.headers["Authorization"]
    page = await service.get("/v1/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'self';")
    assert re.findall(r'(?:src|href)="(?!#)([^"]*)"', page.text) == [
        "/v1/docs.css",
        "/v1/openapi.json",
    ]
    assert "<script" not in page.text
    assert "style=" not in page.text
    assert "<style" not in page.text
    style = await service.get("/v1/docs.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "url(" not in style.text
    assert "@import" not in style.text


async def test_the_docs_page_shows_every_operation_and_code(service: Service) -> None:
    page = (await service.get("/v1/docs")).text
    for operation in OPERATIONS:
        assert f'id="{operation.id}"' in page
        for code in operation.all_errors:
            assert f"<code>{code}</code>" in page
    for methods in DOCUMENT["webhooks"].values():
        assert f'id="{methods["post"]["operationId"]}"' in page
    anchors = set(re.findall(r'href="#([^"]+)"', page))
    assert anchors <= set(re.findall(r'id="([^"]+)"', page))


async def test_the_docs_page_begins_with_authentication_and_a_first_call(service: Service) -> None:
    page = (await service.get("/v1/docs")).text
    first_call = page.partition('<section id="first-call">')[2].partition("</section>")[0]
    assert re.search("export AGENTJOBS_URL=http://.*/v1\n", first_call)
    assert 'curl -sS "$AGENTJOBS_URL/me" -H "Authorization: Bearer ' in first_call
    places = [page.index(f'<section id="{each}"') for each in ("createJob", "listJobs", "getJob")]
    assert places == sorted(places)
