"""Examples for the OpenAPI document."""

from collections.abc import Mapping
from typing import Any

from agentjobs.web.api.error_codes import API_ERRORS

JOB_ID = "job_01k9zq4x6h3v8m2t5r7w9c1d0e"
REPO_ID = "repo_01k9zq1b2c3d4e5f6g7h8j9k0m"
VULNERABILITY_ID = "fnd_01k9zq1b2c3d4e5f6g7h8j9k0n"
PULL_ID = "pull_01k9zq1b2c3d4e5f6g7h8j9k0m_7"
COMMIT = "4f9c1c0d5f0a6b7e8d9c0b1a2f3e4d5c6b7a8f90"
REQUEST_ID = "req_5f0c2a9be41d77e3a6b81c90"
EVENT_ID = "evt_01k9zq4x6h7c3n5p9s2v4y6a8b"
DELIVERY_ID = "dlv_01k9zq4x6j5d7e9f1g3h5j7k9m"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WEBHOOK_SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="  # noqa: S105 - an example
PENDING_WEBHOOK_SECRET = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="  # noqa: S105 - likewise

CREATE_JOB: Mapping[str, Any] = {
    "repo": "acme/shop",
    "agent": "lint-fixer",
    "ticket_id": "SHOP-1234",
    "config_override": {"auto_trigger_on_cve_severity": "high", "draft": False},
    "labels": {"team": "payments"},
}

RETRY: Mapping[str, Any] = {"labels": {"team": "payments", "attempt": "2"}}

FOLLOW_UP: Mapping[str, Any] = {"prompt": "Use a constant for the path, and test it."}

RECEIPT: Mapping[str, Any] = {
    "job_id": JOB_ID,
    "status": "queued",
    "estimated_start_ms": 0,
    "warnings": [],
}

JOB: Mapping[str, Any] = {
    "job_id": JOB_ID,
    "status": "completed",
    "agent": "lint-fixer",
    "pr_url": "https://jobs.example.com/default/acme/shop/pulls/7",
    "pr_number": 7,
    "started_at": "2026-01-31T09:30:00.020Z",
    "completed_at": "2026-01-31T09:30:04.512Z",
    "repo": "acme/shop",
    "ticket_id": "SHOP-1234",
    "created_at": "2026-01-31T09:30:00.000Z",
    "attempt": 1,
    "error": None,
    "usage": {"input_tokens": 18204, "output_tokens": 1311, "cost_usd": 0.074, "requests": 6},
    "queue_reason": None,
    "verification": {
        "command": "make test",
        "passed": True,
        "exit_code": 0,
        "duration_ms": 2140,
        "output": "",
        "stopped_by": None,
    },
    "follows": None,
    "cause": None,
    "pr_state": "open",
    "ticket": {
        "title": "Prices are rounded twice",
        "url": "https://acme.atlassian.net/browse/SHOP-1234",
        "labels": ["bug"],
    },
    "warnings": [],
    "environment": {
        "build_id": "env_01jjxk0000000000000000000e",
        "image": "registry.example.com/acme/build:12",
        "image_digest": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "key": "b1946ac92492d2347c6235b4d2611184d6ee3a1b5b4f8a1a2f6b6d3b0c5d9e7f",
        "prepared_ms": 4,
    },
    "branch": "agentjobs/lint-fixer/5r7w9c1d0e00-SHOP-1234",
    "base_commit": COMMIT,
    "head_commit": "9b2d7e4a1c3f5068d7e9fa0b1c2d3e4f5a6b7c8d",
    "config_override": {"auto_trigger_on_cve_severity": "high", "draft": False},
    "labels": {"team": "payments"},
    "elapsed_ms": 4492,
    "queue_position": None,
    "estimated_start_ms": None,
    "report_markdown": None,
    "report_json": None,
    "phases": [
        {
            "phase": phase,
            "attempt": 1,
            "started_at": f"2026-01-31T09:30:0{start}Z",
            "ended_at": f"2026-01-31T09:30:0{end}Z",
            "elapsed_ms": round(1_000 * (float(end) - float(start))),
            "interruption": None,
        }
        for phase, start, end in (
            ("queued", "0.000", "0.008"),
            ("prepare", "0.008", "0.012"),
            ("environment", "0.012", "0.020"),
            ("agent", "0.020", "2.241"),
            ("checks", "2.241", "4.381"),
            ("push", "4.381", "4.430"),
            ("pull_request", "4.430", "4.512"),
        )
    ],
}

CANCELLED_JOB: Mapping[str, Any] = {
    **JOB,
    "status": "cancelled",
    "pr_url": None,
    "pr_number": None,
    "pr_state": None,
    "error": {"code": "cancelled", "message": "The job was cancelled.", "retryable": True},
}

PROMPT: Mapping[str, Any] = {
    "job_id": JOB_ID,
    "prompt": "You are Lint fixer, a coding agent, working on the repository acme/shop.\n…",
}

JOBS: Mapping[str, Any] = {"jobs": [{**JOB, "phases": []}], "next_cursor": None}

EVENTS: Mapping[str, Any] = {
    "events": [
        {
            "id": EVENT_ID,
            "event": "job.queued",
            "sequence": 1,
            "timestamp": "2026-01-31T09:30:00.000Z",
            "payload": {
                "event": "job.queued",
                "job_id": JOB_ID,
                "repo": "acme/shop",
                "pr_url": None,
                "timestamp": "2026-01-31T09:30:00.000Z",
            },
        }
    ]
}

EVENT_PAGE: Mapping[str, Any] = {
    "events": [{**EVENTS["events"][0], "job_id": JOB_ID}],
    "next_cursor": "ZXZlbnRzOm9yZ18wMWs5enE0eDZoN2MzbjVwOXMydjR5NmE4YiAxNzY5ODUxODAwMDAwMDAx",
    "has_more": False,
}

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
DIFF: Mapping[str, Any] = {
    "job_id": JOB_ID,
    "base_commit": COMMIT,
    "head_commit": "9b2e7d40c1f3a5586d7e9c0b1a2f3e4d5c6b7a8f",
    "truncated": False,
    "files": [
        {
            "path": "shop/prices.py",
            "previous_path": None,
            "status": "modified",
            "additions": 1,
            "deletions": 1,
            "binary": False,
            "patch": DIFF_TEXT,
        }
    ],
}

STEPS: Mapping[str, Any] = {
    "steps": [
        {
            "sequence": 41,
            "kind": "model",
            "title": "claude-sonnet-4-5",
            "detail": "18,204 tokens in (16,001 cached), 312 out",
            "state": "succeeded",
            "exit_code": None,
            "started_at": "2026-01-31T09:29:51.004Z",
            "duration_ms": 4210,
            "cost_usd": 0.0124,
        },
        {
            "sequence": 42,
            "kind": "command",
            "title": "pytest tests/test_prices.py",
            "detail": "E   assert 9 == 9.99\n1 failed, 3 passed in 0.31s",
            "state": "failed",
            "exit_code": 1,
            "started_at": "2026-01-31T09:29:55.230Z",
            "duration_ms": 1830,
            "cost_usd": None,
        },
    ],
    "next_cursor": None,
}

ARTIFACTS: Mapping[str, Any] = {
    "artifacts": [
        {
            "name": "coverage.txt",
            "media_type": "text/plain",
            "size_bytes": 4096,
            "created_at": "2026-01-31T09:30:04.311Z",
        }
    ]
}

AGENT: Mapping[str, Any] = {
    "id": "lint-fixer",
    "name": "Lint fixer",
    "available": True,
    "plan_required": "free",
    "description": "Fixes and formats Python files with ruff.",
    "result": "pull_request",
}

AGENTS: Mapping[str, Any] = {"agents": [AGENT], "next_cursor": None}

AGENT_DETAILS: Mapping[str, Any] = {
    **AGENT,
    "result_schema": None,
    "limits": {"timeout_seconds": 3600, "max_cost_usd": None},
    "config_override_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"timeout_seconds": {"type": "integer", "minimum": 1, "maximum": 3600}},
        "additionalProperties": True,
    },
}

REPO: Mapping[str, Any] = {
    "id": REPO_ID,
    "full_name": "acme/shop",
    "platform": "local",
    "index_status": "ready",
    "line_count": 48213,
    "default_branch": "main",
    "indexed_commit": COMMIT,
    "index_progress": None,
    "index_error": None,
    "sync_error": None,
    "lifted_paths": [],
    "required_tags": [],
    "max_concurrent_jobs": None,
}

REPOS: Mapping[str, Any] = {"repos": [REPO], "next_cursor": None}

CALLER: Mapping[str, Any] = {
    "organization": {"id": "org_01k9zq0a1b2c3d4e5f6g7h8j9k", "name": "acme"},
    "plan": {"name": "pro", "concurrent_jobs": 5},
    "key": {
        "id": "key_01k9zq0m1n2p3q4r5s6t7v8w9x",
        "name": "nightly builds",
        "scopes": ["jobs"],
        "expires_at": "2026-12-31T00:00:00.000Z",
    },
    "limits": {
        "queued_jobs": 1000,
        "open_requests": 200,
        "rate_limit_per_second": 100,
        "rate_limit_burst": 500,
        "job_budget_usd": 5.0,
        "daily_budget_usd": None,
    },
}

PULL: Mapping[str, Any] = {
    "id": PULL_ID,
    "repo": "acme/shop",
    "number": 7,
    "title": "Round prices once",
    "url": "https://jobs.example.com/default/acme/shop/pulls/7",
    "state": "open",
    "draft": False,
    "base_branch": "main",
    "head_branch": "agentjobs/shop-1234-k9zq4x6h",
    "head_commit": COMMIT,
    "merge_commit": None,
    "job_id": JOB_ID,
    "created_at": "2026-01-31T09:30:04.498Z",
    "merged_at": None,
    "closed_at": None,
}

PULLS: Mapping[str, Any] = {"pulls": [PULL], "next_cursor": None}

MERGE_PULL: Mapping[str, Any] = {"method": "squash", "head_commit": COMMIT}

MERGED_PULL: Mapping[str, Any] = {
    **PULL,
    "state": "merged",
    "merge_commit": "b1d5781111d84f7b3fe45a0852e59758cd7a87e5",
    "merged_at": "2026-01-31T10:02:11.040Z",
}

CLOSED_PULL: Mapping[str, Any] = {
    **PULL,
    "state": "closed",
    "closed_at": "2026-01-31T10:02:11.040Z",
}

VULNERABILITY: Mapping[str, Any] = {
    "id": VULNERABILITY_ID,
    "repo": "acme/shop",
    "manifest": "requirements.txt",
    "ecosystem": "PyPI",
    "package": "requests",
    "version": "2.30.0",
    "advisory_id": "GHSA-j8r2-6x86-q33q",
    "aliases": ["CVE-2023-32681", "PYSEC-2023-74"],
    "severity": "medium",
    "score": 6.1,
    "summary": "Unintended leak of Proxy-Authorization header in requests",
    "fix_version": "2.31.0",
    "fix_reason": "The lowest version without known vulnerabilities.",
    "fixture": False,
    "first_seen_at": "2026-01-31T09:30:04.498Z",
    "state": "open",
    "reason": None,
    "note": "",
    "until": None,
    "decided_by": None,
    "decided_at": None,
}

VULNERABILITIES: Mapping[str, Any] = {"vulnerabilities": [VULNERABILITY], "next_cursor": None}

DISMISS_VULNERABILITY: Mapping[str, Any] = {
    "reason": "fix_later",
    "note": "With the upgrade of the proxy.",
    "until": "2026-03-01T00:00:00.000Z",
}

DISMISSED_VULNERABILITY: Mapping[str, Any] = {
    **VULNERABILITY,
    **DISMISS_VULNERABILITY,
    "state": "snoozed",
    "decided_by": "nightly builds",
    "decided_at": "2026-01-31T10:02:11.040Z",
}

_SUMS: Mapping[str, Any] = {
    "jobs": {
        "total": 42,
        "queued": 0,
        "running": 1,
        "completed": 38,
        "failed": 2,
        "cancelled": 1,
    },
    "agent_seconds": 5210.4,
    "input_tokens": 1830400,
    "output_tokens": 96120,
    "cost_usd": 6.92,
}

USAGE: Mapping[str, Any] = {
    "from": "2026-01-01T00:00:00.000Z",
    "to": "2026-02-01T00:00:00.000Z",
    "total": _SUMS,
    "groups": [{"key": "lint-fixer", **_SUMS}],
}

DEPENDENCIES: Mapping[str, Any] = {
    "dependencies": [
        {
            "purl": "pkg:pypi/urllib3@1.26.15",
            "ecosystem": "PyPI",
            "name": "urllib3",
            "version": "1.26.15",
            "requirement": "",
            "direct": False,
            "scope": "runtime",
            "manifest": "uv.lock",
            "parents": ["requests"],
            "fixture": False,
            "imported": "yes",
            "managed_by": "",
            "advisories": [
                {
                    "id": "GHSA-v845-jxx5-vc9f",
                    "aliases": ["CVE-2023-43804", "PYSEC-2023-192"],
                    "severity": "medium",
                    "score": 5.9,
                    "summary": "Cookies are sent along when a redirect leads to another host.",
                    "fix_version": "1.26.17",
                    "fix_reason": "The lowest version that no known advisory affects.",
                }
            ],
        }
    ],
    "next_cursor": None,
    "indexed_commit": COMMIT,
}

# By the name of the parameter.
QUERY_EXAMPLES: Mapping[str, Any] = {
    "after": 40,
    "agent": "lint-fixer",
    "created_after": "2026-01-31T00:00:00.000Z",
    "created_before": "2026-02-01T00:00:00.000Z",
    "cursor": "am9icyBqb2JfMDFrOXpxNHg2aDN2OG0ydDVyN3c5YzFkMGU",
    "direct": True,
    "dismissed": False,
    "ecosystem": "PyPI",
    "fixture": False,
    "follows": JOB_ID,
    "from": "2026-01-01",
    "group_by": "agent",
    "imported": "yes",
    "job_id": JOB_ID,
    "kind": "command",
    "label": {"label.team": "payments"},
    "limit": 50,
    "repo": "acme/shop",
    "search": "urllib",
    "severity": "high",
    "state": "open",
    "status": ["completed"],
    "tail_bytes": 10_000,
    "ticket_id": "SHOP-1234",
    "timestamps": True,
    "to": "2026-02-01",
    "vulnerable": True,
    "wait_for": "final",
    "wait_seconds": 30,
}

ERROR_DETAILS: Mapping[str, Any] = {
    "validation_failed": [{"field": "repo", "message": "is required"}],
    "plan_required": {"plan_required": "enterprise"},
    "follow_up_active": {"job_id": JOB_ID},
    "insufficient_scope": {"scope": "jobs"},
    "pull_changed": {"head_commit": COMMIT},
    "pull_not_mergeable": {"files": ["src/shop.py"]},
}


def error_example(code: str) -> dict[str, Any]:
    error = {"code": code, "message": API_ERRORS[code], "request_id": REQUEST_ID}
    if code in ERROR_DETAILS:
        error["details"] = ERROR_DETAILS[code]
    return {"error": error}
