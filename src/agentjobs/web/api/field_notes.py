"""What the types cannot say about fields: meaning, format and bounds, by component and field."""

from collections.abc import Mapping
from typing import Any

from agentjobs.jobs.states import RETRYABLE
from agentjobs.jobs.validation import SEVERITIES
from agentjobs.web.api.jobs import JOB_ID_PATTERN

Notes = Mapping[str, Mapping[str, Any]]

_TIME = {"type": "string", "format": "date-time"}
_NO_CONTROLS = "[^\\x00-\\x1f\\x7f]"
_SOME_TEXT = f"^{_NO_CONTROLS}*[^\\s\\x00-\\x1f\\x7f]{_NO_CONTROLS}*$"


def _note(description: str, **facts: Any) -> Mapping[str, Any]:
    return {"description": description, **facts}


def _time(description: str, *, known: bool = True) -> Mapping[str, Any]:
    kind = "string" if known else ["string", "null"]
    return {**_TIME, "type": kind, "description": description}


_SEVERITY = "|".join("".join(f"[{c}{c.upper()}]" for c in name) for name in SEVERITIES)

_OVERRIDES: Mapping[str, Any] = {
    "auto_trigger_on_cve_severity": {
        "type": "string",
        "description": f"The severity threshold: {', '.join(SEVERITIES)}, in any case.",
        "pattern": f"^({_SEVERITY})$",
    },
    "prompt": {
        "type": "string",
        "description": "What the agent should do.",
        "pattern": "^[^\\x00]*[^\\s\\x00][^\\x00]*$",
    },
    "base_branch": {
        "type": "string",
        "description": "The branch to start from and to propose to; default: the repository's.",
        "pattern": "^[A-Za-z0-9_]+([./-][A-Za-z0-9_]+)*$",
        "maxLength": 200,
    },
    "timeout_seconds": {
        "type": "integer",
        "description": "Stop the agent after this time; may only be lower than the agent's own.",
        "minimum": 1,
        "maximum": 604_800,
    },
    "max_cost_usd": {
        "type": "number",
        "description": "Stop the agent when it has spent this much.",
        "exclusiveMinimum": 0,
        "maximum": 1_000_000,
    },
    "draft": {"type": "boolean", "description": "Open the pull request as a draft."},
    "reviewers": {
        "type": "array",
        "description": "Who is asked to review the pull request.",
        "maxItems": 20,
        "items": {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[^\\x00]*$"},
    },
    "title": {
        "type": "string",
        "description": "The pull request's title, on one line.",
        "maxLength": 200,
        "pattern": "^[ -~]*[!-~][ -~]*$",
    },
}

_JOB: Notes = {
    "job_id": _note("Job identifier.", pattern=JOB_ID_PATTERN),
    "status": _note("Current job status."),
    "agent": _note("Agent identifier."),
    "pr_url": _note("URL of the pull request opened by the job.", format="uri"),
    "pr_number": _note("Number of the pull request."),
    "started_at": _time("When the job started.", known=False),
    "completed_at": _time("When the job completed.", known=False),
    "repo": _note("Repository full name, form `<owner>/<name>`."),
    "ticket_id": _note("Identifier of a ticket in an external tracker."),
    "created_at": _time("When the job was created."),
    "attempt": _note("How often the agent was started.", minimum=0),
    "error": _note("Why the job failed or was cancelled."),
    "usage": _note(
        "What the agent's models used and cost so far; a request under way counts with what is "
        "reserved for it. Null: no model was called."
    ),
    "queue_reason": _note(
        "Why a queued job cannot start: `plan_limit` or `no_worker`. Null: it waits for its turn."
    ),
    "verification": _note("What the check after the agent found; null when there is none yet."),
    "follows": _note("The job whose pull request this one goes on with."),
    "cause": _note(
        "Why the service itself asked for this job: the vulnerable package and its advisories."
    ),
    "pr_state": _note(
        "What became of the pull request, as far as its platform told: `open`, `merged` or"
        " `closed`."
    ),
    "ticket": _note("What the tracker says of the ticket, once it was asked."),
}

FIELD_NOTES: Mapping[str, Notes] = {
    "CreateJobRequest": {
        "repo": _note(
            "Repository full name, form `<owner>/<name>`; GitLab has groups in groups.",
            maxLength=500,
            pattern="^[A-Za-z0-9_.-]{1,255}(/[A-Za-z0-9_.-]{1,255}){1,20}$",
        ),
        "agent": _note("Agent identifier.", pattern="^[a-z0-9][a-z0-9-]{0,62}$"),
        "ticket_id": _note(
            "Identifier of a ticket in an external tracker.", maxLength=255, pattern=_SOME_TEXT
        ),
        "config_override": _note(
            "Per-job configuration overrides, at most 16 KiB as JSON. Keys beyond those named "
            "here are handed to the agent.",
            properties=_OVERRIDES,
        ),
    },
    "FollowUpRequest": {
        "prompt": _note(
            "What the agent should do to the pull request, at most 16 KiB.",
            pattern=_OVERRIDES["prompt"]["pattern"],
        ),
        "agent": _note(
            "Agent identifier; without it the agent of the earlier job.",
            pattern="^[a-z0-9][a-z0-9-]{0,62}$",
        ),
        **{
            name: {**_OVERRIDES[name], "type": [_OVERRIDES[name]["type"], "null"]}
            for name in ("timeout_seconds", "max_cost_usd")
        },
    },
    "Receipt": {
        "job_id": _note("Job identifier.", pattern=JOB_ID_PATTERN),
        "status": _note("`queued` on creation."),
        "estimated_start_ms": _note(
            "Estimated time until the job starts, in milliseconds.", minimum=0
        ),
    },
    "Job": _JOB,
    "Usage": {
        "input_tokens": _note("Tokens sent to models, cached ones included.", minimum=0),
        "output_tokens": _note("Tokens the models answered with.", minimum=0),
        "cost_usd": _note("What they cost, in US dollars.", minimum=0),
        "requests": _note("How many requests were let through.", minimum=0),
    },
    "Cause": {
        "ecosystem": _note("Where the package is published, as OSV calls it."),
        "package": _note("The vulnerable package."),
        "versions": _note("The vulnerable versions that were found."),
        "manifest": _note("The file that fixes the version."),
        "fix_version": _note("The version that no known advisory affects."),
        "advisories": _note("What is known about it, the worst first."),
    },
    "CausingAdvisory": {
        "id": _note("The advisory that speaks for all about the same fault."),
        "severity": _note("`low`, `medium`, `high`, `critical` or `unknown`."),
        "aliases": _note("What else it is known by."),
    },
    "Verification": {
        "command": _note("What was run after the agent."),
        "passed": _note("Whether it succeeded."),
        "exit_code": _note("Null when time or a limit ended it."),
        "duration_ms": _note("How long it took.", minimum=0),
        "output": _note("The last lines of a check that failed."),
        "stopped_by": _note("Why it did not end by itself: time, or a limit."),
    },
    "PromptView": {
        "job_id": _note("Job identifier.", pattern=JOB_ID_PATTERN),
        "prompt": _note("What the agent was told."),
    },
    "TicketFacts": {
        "title": _note("Its title."),
        "url": _note("Where people read it.", format="uri"),
        "labels": _note("What it is labelled with."),
    },
    "JobError": {
        "code": _note(f"A stable code: {', '.join(f'`{code}`' for code in RETRYABLE)}, or newer."),
        "message": _note("What happened, for people."),
        "retryable": _note("Whether the same job may succeed when it is created again."),
    },
    "Event": {
        "id": _note("Event identifier; the `webhook-id` of its deliveries."),
        "event": _note("Event type."),
        "sequence": _note("Order of the job's events, from 1.", minimum=1),
        "timestamp": _time("When the event occurred."),
        "payload": {"$ref": "#/components/schemas/WebhookPayload"},
    },
    "WebhookPayload": {
        "event": _note("Event type."),
        "job_id": _note("Job identifier."),
        "repo": _note("Repository full name."),
        "pr_url": _note("Pull request URL.", format="uri"),
        "timestamp": _time("When the event occurred."),
    },
    "Agent": {
        "id": _note("Agent identifier; used as `agent` when creating a job."),
        "name": _note("Display name."),
        "available": _note("Whether the agent is available on the current plan."),
        "plan_required": _note("Minimum plan needed for the agent."),
    },
    "Repository": {
        "id": _note("Repository identifier."),
        "full_name": _note("Form `<owner>/<name>`."),
        "platform": _note("Hosting platform of the repository."),
        "index_status": _note(
            "`indexing` until the first index is stored, then `ready`.",
            enum=["ready", "indexing"],
        ),
        "line_count": _note("Number of lines in the repository; 0 until it is known.", minimum=0),
        "default_branch": _note("Where jobs start from unless they say otherwise."),
        "indexed_commit": _note("The commit that the index describes."),
        "index_progress": _note("How far a running index is."),
        "index_error": _note("Why the last index failed; it is tried again."),
        "sync_error": _note("Why its platform cannot be followed now; it is asked again."),
        "lifted_paths": _note("Patterns of protected paths that agents may change here."),
    },
    "IndexProgress": {
        "done": _note("Files read so far.", minimum=0),
        "total": _note("Files there are, once they are counted."),
    },
    "Dependency": {
        "purl": _note("Package URL; empty for a name that the form cannot hold."),
        "ecosystem": _note("Where the package is published, as OSV calls it."),
        "name": _note("The package's name, as its ecosystem normalizes it."),
        "version": _note("The version; null when nothing fixes it."),
        "requirement": _note("What the repository itself asks for; empty if only others do."),
        "direct": _note("Whether the repository itself asks for it."),
        "scope": _note("What it is needed for."),
        "manifest": _note("The file that fixes the version: the lock file, if there is one."),
        "parents": _note("The way from a direct dependency to this one; empty for a direct one."),
        "advisories": _note("What is known against it, the worst first."),
    },
    "DependencyAdvisory": {
        "id": _note("The advisory that speaks for all about the same fault."),
        "aliases": _note("What else it is known by."),
        "severity": _note("`low`, `medium`, `high`, `critical` or `unknown`."),
        "score": _note("The CVSS base score, where there is one."),
        "summary": _note("What is wrong, in a line."),
        "fix_version": _note("The version that no known advisory affects; null: there is none."),
        "fix_reason": _note("Why that version, or why none."),
    },
    "DependencyList": {
        "next_cursor": _note("Leads to the next page; null on the last."),
        "indexed_commit": _note("The commit that the index describes."),
    },
    "Error": {
        "code": _note("A stable code."),
        "message": _note("What to do next, for people."),
        "request_id": _note("The `X-Request-Id` of this answer."),
        "details": {
            "description": "Every fault with its field, or facts that belong to the code.",
            "oneOf": [
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["field", "message"],
                        "properties": {
                            "field": {"type": "string"},
                            "message": {"type": "string"},
                        },
                    },
                },
                {"type": "object"},
            ],
        },
    },
    "JobList": {"next_cursor": _note("Leads to the next page; null on the last.")},
    "AgentList": {"next_cursor": _note("Leads to the next page; null on the last.")},
    "RepoList": {"next_cursor": _note("Leads to the next page; null on the last.")},
}
