"""Examples for the OpenAPI document: of a response, from the types of its fields and one value for
each field."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agentjobs.web.api.error_codes import API_ERRORS

JOB_ID = "job_01k9zq4x6h3v8m2t5r7w9c1d0e"
REPO_ID = "repo_01k9zq1b2c3d4e5f6g7h8j9k0m"
VULNERABILITY_ID = "fnd_01k9zq1b2c3d4e5f6g7h8j9k0n"
PULL_ID = "pull_01k9zq1b2c3d4e5f6g7h8j9k0m_7"
COMMIT = "4f9c1c0d5f0a6b7e8d9c0b1a2f3e4d5c6b7a8f90"
EVENT_ID = "evt_01k9zq4x6h7c3n5p9s2v4y6a8b"
DELIVERY_ID = "dlv_01k9zq4x6j5d7e9f1g3h5j7k9m"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WEBHOOK_SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="  # noqa: S105 - an example
PENDING_WEBHOOK_SECRET = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="  # noqa: S105 - likewise
CREATED_AT, STARTED_AT = "2026-01-31T09:30:00.000Z", "2026-01-31T09:30:00.020Z"
COMPLETED_AT, CLOSED_AT = "2026-01-31T09:30:04.512Z", "2026-01-31T10:02:11.040Z"
REPO = "acme/shop"
PULL_URL = "https://jobs.example.com/default/acme/shop/pulls/7"
LOG_TEXT = "lint-fixer: 3 files changed\n"
LOG_EVENTS = (
    "retry: 1000\n\nid: 1\ndata: lint-fixer: 3 files changed\ndata: \n\n"
    "event: end\ndata: completed\n\n"
)
DIFF_TEXT = """\
diff --git a/shop/prices.py b/shop/prices.py
index 3b18e51..9d0c1a4 100644
--- a/shop/prices.py
+++ b/shop/prices.py
@@ -1,2 +1,2 @@
 def total(prices):
-    return round(sum(round(price, 2) for price in prices), 2)
+    return round(sum(prices), 2)
"""
_LABELS = {"team": "payments"}
CREATE_JOB: Mapping[str, Any] = {
    "repo": REPO,
    "agent": "lint-fixer",
    "ticket_id": "SHOP-1234",
    "config_override": {"auto_trigger_on_cve_severity": "high", "draft": False},
    "labels": _LABELS,
}
RETRY: Mapping[str, Any] = {"labels": {**_LABELS, "attempt": "2"}}
FOLLOW_UP: Mapping[str, Any] = {"prompt": "Use a constant for the path, and test it."}
MERGE_PULL: Mapping[str, Any] = {"method": "squash", "head_commit": COMMIT}
DISMISS_VULNERABILITY: Mapping[str, Any] = {
    "reason": "fix_later",
    "note": "With the upgrade of the proxy.",
    "until": "2026-03-01T00:00:00.000Z",
}
# By the name of the field, or of its type and the field. Fields without a value have an example of
# their own type, null, 0, false, or an empty text or list.
_VALUES: Mapping[str, Any] = {
    **CREATE_JOB,
    "additions": 1,
    "AgentDetails.id": "lint-fixer",
    "AgentDetails.name": "Lint fixer",
    "AgentView.id": "lint-fixer",
    "AgentView.name": "Lint fixer",
    "advisory_id": "GHSA-j8r2-6x86-q33q",
    "aliases": ["CVE-2023-32681", "PYSEC-2023-74"],
    "ArtifactView.name": "coverage.txt",
    "attempt": 1,
    "available": True,
    "base_branch": "main",
    "base_commit": COMMIT,
    "branch": "agentjobs/lint-fixer/5r7w9c1d0e00-SHOP-1234",
    "build_id": "env_01jjxk0000000000000000000e",
    "cause": None,
    "code": "cancelled",
    "command": "make test",
    "completed_at": COMPLETED_AT,
    "concurrent_jobs": 5,
    "config_override_schema": {"type": "object", "additionalProperties": True},
    "cost_usd": 0.074,
    "created_at": CREATED_AT,
    "default_branch": "main",
    "deletions": 1,
    "DependencyAdvisory.id": "GHSA-j8r2-6x86-q33q",
    "DependencyDocument.name": "requests",
    "description": "Fixes and formats Python files with ruff.",
    "detail": "E   assert 9 == 9.99\n1 failed, 3 passed in 0.31s",
    "DiffFileView.status": "modified",
    "direct": True,
    "duration_ms": 2140,
    "ecosystem": "PyPI",
    "elapsed_ms": 4492,
    "ended_at": COMPLETED_AT,
    "error": None,
    "event": "job.queued",
    "EventPage.next_cursor": (
        "ZXZlbnRzOm9yZ18wMWs5enE0eDZoN2MzbjVwOXMydjR5NmE4YiAxNzY5ODUxODAwMDAwMDAx"
    ),
    "EventView.id": EVENT_ID,
    "first_seen_at": CREATED_AT,
    "fix_reason": "The lowest version without known vulnerabilities.",
    "fix_version": "2.31.0",
    "from": "2026-01-01T00:00:00.000Z",
    "full_name": REPO,
    "head_branch": "agentjobs/lint-fixer/5r7w9c1d0e00-SHOP-1234",
    "head_commit": COMMIT,
    "image": "registry.example.com/acme/build:12",
    "imported": "yes",
    "index_progress": None,
    "index_status": "ready",
    "indexed_commit": COMMIT,
    "input_tokens": 18204,
    "job_id": JOB_ID,
    "JobCounts.completed": 42,
    "JobCounts.total": 42,
    "JobView.status": "completed",
    "EnvironmentView.key": "b1946ac92492d2347c6235b4d2611184d6ee3a1b5b4f8a1a2f6b6d3b0c5d9e7f",
    "KeyView.id": "key_01k9zq0m1n2p3q4r5s6t7v8w9x",
    "KeyView.name": "nightly builds",
    "line_count": 48213,
    "manifest": "requirements.txt",
    "media_type": "text/plain",
    "number": 7,
    "OrganizationEventView.id": EVENT_ID,
    "OrganizationView.id": "org_01k9zq0a1b2c3d4e5f6g7h8j9k",
    "OrganizationView.name": "acme",
    "open_requests": 200,
    "output_tokens": 1311,
    "package": "requests",
    "passed": True,
    "patch": DIFF_TEXT,
    "path": "shop/prices.py",
    "payload": {
        "event": "job.queued",
        "job_id": JOB_ID,
        "repo": REPO,
        "pr_url": None,
        "timestamp": CREATED_AT,
    },
    "phase": "agent",
    "plan_required": "free",
    "PlanView.name": "pro",
    "platform": "local",
    "pr_number": 7,
    "pr_state": "open",
    "pr_url": PULL_URL,
    "prompt": "You are Lint fixer, a coding agent, working on the repository acme/shop.\n…",
    "PullView.id": PULL_ID,
    "purl": "pkg:pypi/requests@2.30.0",
    "queued_jobs": 1000,
    "RepoView.id": REPO_ID,
    "report_json": None,
    "requests": 6,
    "result": "pull_request",
    "scope": "runtime",
    "scopes": ["jobs"],
    "score": 6.1,
    "sequence": 1,
    "severity": "medium",
    "size_bytes": 4096,
    "started_at": STARTED_AT,
    "state": "open",
    "status": "queued",
    "StepView.exit_code": 1,
    "StepView.kind": "command",
    "StepView.state": "failed",
    "StepView.title": "pytest tests/test_prices.py",
    "summary": "Unintended leak of Proxy-Authorization header in requests",
    "TicketDetails.labels": ["bug"],
    "TicketDetails.url": "https://acme.atlassian.net/browse/SHOP-1234",
    "timeout_seconds": 3600,
    "timestamp": CREATED_AT,
    "title": "Prices are rounded twice",
    "to": "2026-02-01T00:00:00.000Z",
    "url": PULL_URL,
    "UsageGroup.key": "lint-fixer",
    "version": "2.30.0",
    "VulnerabilityView.id": VULNERABILITY_ID,
}
# By the name of the parameter, where fields of the same name have no value that fits.
QUERY_VALUES: Mapping[str, Any] = {
    **_VALUES,
    "after": 40,
    "created_after": CREATED_AT,
    "created_before": "2026-02-01T00:00:00.000Z",
    "cursor": "am9icyBqb2JfMDFrOXpxNHg2aDN2OG0ydDVyN3c5YzFkMGU",
    "dismissed": False,
    "fixture": False,
    "follows": JOB_ID,
    "group_by": "agent",
    "kind": "command",
    "label": {f"label.{key}": value for key, value in _LABELS.items()},
    "limit": 50,
    "search": "urllib",
    "status": ["completed"],
    "tail_bytes": 10_000,
    "timestamps": True,
    "vulnerable": True,
    "wait_for": "final",
    "wait_seconds": 30,
}
_ERROR_DETAILS: Mapping[str, Any] = {
    "validation_failed": [{"field": "repo", "message": "is required"}],
    "plan_required": {"plan_required": "enterprise"},
    "follow_up_active": {"job_id": JOB_ID},
    "insufficient_scope": {"scope": "jobs"},
    "pull_changed": {"head_commit": COMMIT},
    "pull_not_mergeable": {"files": ["src/shop.py"]},
}
_EMPTY: Mapping[str, Any] = {"integer": 0, "number": 0.0, "boolean": False, "array": []}


def error_example(code: str) -> dict[str, Any]:
    request_id = "req_5f0c2a9be41d77e3a6b81c90"
    error = {"code": code, "message": API_ERRORS[code], "request_id": request_id}
    if code in _ERROR_DETAILS:
        error["details"] = _ERROR_DETAILS[code]
    return {"error": error}


def response_example(type_: type[msgspec.Struct]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([type_], ref_template="{name}")
    return _struct(type_.__name__, components)


def _struct(name: str, components: Mapping[str, Any]) -> dict[str, Any]:
    return {
        field: _VALUES[key]
        if (key := f"{name}.{field}") in _VALUES or (key := field) in _VALUES
        else _value(schema, components)
        for field, schema in components[name]["properties"].items()
    }


def _value(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _struct(schema["$ref"], components)
    if "anyOf" in schema:
        structs = [option for option in schema["anyOf"] if "$ref" in option]
        return _value(structs[0], components) if structs else None
    if "$ref" in schema.get("items", ()):
        return [_value(schema["items"], components)]
    return _EMPTY.get(schema.get("type", ""), "")
