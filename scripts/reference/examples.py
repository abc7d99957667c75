"""How curl and the two clients call each operation, with the values of the OpenAPI document."""

import json
import re
from collections.abc import Iterator, Mapping
from string import Template
from textwrap import indent
from typing import Any, NamedTuple

from scripts.reference.curl_examples import curl_example

Document = Mapping[str, Any]
MAX_LINE = 80


class Calls(NamedTuple):
    """`$name` stands for the example of a parameter or of a field of the body, `$body` for all."""

    python: str
    typescript: str
    # Query parameters that the example of curl sends, beside those that the others name.
    query: tuple[str, ...] = ()
    curl_options: str = ""


class Operation(NamedTuple):
    id: str
    method: str
    path: str
    details: Document

    def parameters(self, location: str) -> Iterator[Document]:
        return (each for each in self.details.get("parameters", ()) if each["in"] == location)

    @property
    def body(self) -> Any:
        content = self.details.get("requestBody", {}).get("content", {})
        return content.get("application/json", {}).get("example")

    @property
    def success(self) -> tuple[str, Document]:
        return next(item for item in self.details["responses"].items() if item[0].startswith("2"))


# In the order of the reference: create before show.
CALLS: Mapping[str, Calls] = {
    "createJob": Calls(
        "receipt = client.create_job(\n"
        "    $repo,\n    $agent,\n    ticket_id=$ticket_id,\n"
        "    config_override=$config_override,\n    labels=$labels,\n)\n"
        "print(receipt.job_id)",
        "const { job_id } = await client.jobs.create($body);\nconsole.log(job_id);",
    ),
    "getJob": Calls(
        "job = client.job($job_id, wait_seconds=$wait_seconds, wait_for=$wait_for)\n"
        "print(job.status, job.pr_url)",
        "const job = await client.jobs.get($job_id);\nconsole.log(job.status, job.pr_url);",
        query=("wait_seconds", "wait_for"),
    ),
    "listJobs": Calls(
        "for job in client.jobs(status=$status, repo=$repo, labels=$labels):\n"
        "    print(job.job_id, job.created_at)",
        "const filters = { status: $status, repo: $repo, labels: $labels };\n"
        "for await (const job of client.jobs.list(filters)) {\n"
        "  console.log(job.job_id, job.created_at);\n}",
        query=("status", "repo", "label"),
    ),
    "getJobLogs": Calls(
        'for text in client.logs($job_id, follow=True):\n    print(text, end="")',
        "for await (const text of client.jobs.logs($job_id)) process.stdout.write(text);",
        curl_options='-N -H "Accept: text/event-stream"',
    ),
    "getJobDiff": Calls(
        "print(client.diff($job_id))", "console.log(await client.jobs.diffText($job_id));"
    ),
    "listJobSteps": Calls(
        "for step in client.steps($job_id, kind=$kind):\n"
        "    print(step.title, step.state, step.exit_code)",
        "for await (const step of client.jobs.steps($job_id, { kind: $kind })) {\n"
        "  console.log(step.title, step.state, step.exit_code);\n}",
        query=("kind",),
    ),
    "listJobArtifacts": Calls(
        "for artifact in client.artifacts($job_id):\n    print(artifact.name, artifact.size_bytes)",
        "for (const artifact of await client.jobs.artifacts($job_id)) {\n"
        "  console.log(artifact.name, artifact.size_bytes);\n}",
    ),
    "getJobArtifact": Calls(
        "content = client.artifact($job_id, $name)",
        "const content = await client.jobs.artifact($job_id, $name);",
        curl_options="-O",
    ),
    "cancelJob": Calls(
        "job = client.cancel($job_id)\nprint(job.status)",
        "const job = await client.jobs.cancel($job_id);\nconsole.log(job.status);",
    ),
    "followUpJob": Calls(
        "receipt = client.follow_up($job_id, $prompt)\nprint(receipt.job_id)",
        "const { job_id } = await client.jobs.followUp($job_id, $body);\nconsole.log(job_id);",
    ),
    "retryJob": Calls(
        "receipt = client.retry($job_id, labels=$labels)\nprint(receipt.job_id)",
        "const { job_id } = await client.jobs.retry($job_id, $body);\nconsole.log(job_id);",
    ),
    "getJobPrompt": Calls(
        "print(client.prompt($job_id))", "console.log(await client.jobs.prompt($job_id));"
    ),
    "listJobEvents": Calls(
        "for event in client.events_of($job_id):\n    print(event.sequence, event.event)",
        "for (const event of await client.jobs.events($job_id)) {\n"
        "  console.log(event.sequence, event.event);\n}",
    ),
    "listEvents": Calls(
        "for event in client.events():\n    print(event.job_id, event.event)",
        "for await (const event of client.events.list()) {\n"
        "  console.log(event.job_id, event.event);\n}",
        query=("limit",),
    ),
    "listPulls": Calls(
        "for pull in client.pulls(state=$state, repo=$repo):\n    print(pull.number, pull.title)",
        "for await (const pull of client.pulls.list({ state: $state, repo: $repo })) {\n"
        "  console.log(pull.number, pull.title);\n}",
        query=("state", "repo"),
    ),
    "getPull": Calls(
        "pull = client.pull($pull_id)\nprint(pull.state)",
        "const pull = await client.pulls.get($pull_id);\nconsole.log(pull.state);",
    ),
    "mergePull": Calls(
        "pull = client.merge_pull(\n"
        "    $pull_id,\n    method=$method,\n    head_commit=$head_commit,\n)\n"
        "print(pull.merge_commit)",
        "const pull = await client.pulls.merge($pull_id, $body);\nconsole.log(pull.merge_commit);",
    ),
    "closePull": Calls(
        "pull = client.close_pull($pull_id)\nprint(pull.state)",
        "const pull = await client.pulls.close($pull_id);\nconsole.log(pull.state);",
    ),
    "listVulnerabilities": Calls(
        "for each in client.vulnerabilities(severity=$severity, dismissed=$dismissed):\n"
        "    print(each.package, each.advisory_id)",
        "const list = client.vulnerabilities.list({\n"
        "  severity: $severity,\n  dismissed: $dismissed,\n});\n"
        "for await (const each of list) {\n"
        "  console.log(each.package, each.advisory_id);\n}",
        query=("severity", "dismissed"),
    ),
    "dismissVulnerability": Calls(
        "vulnerability = client.dismiss_vulnerability(\n"
        "    $vulnerability_id,\n    $reason,\n    note=$note,\n    until=$until,\n)\n"
        "print(vulnerability.state)",
        "const { state } = await client.vulnerabilities.dismiss($vulnerability_id, $body);\n"
        "console.log(state);",
    ),
    "reopenVulnerability": Calls(
        "vulnerability = client.reopen_vulnerability($vulnerability_id)\n"
        "print(vulnerability.state)",
        "const { state } = await client.vulnerabilities.reopen($vulnerability_id);\n"
        "console.log(state);",
    ),
    "listAgents": Calls(
        "for agent in client.agents():\n    print(agent.id, agent.available)",
        "for await (const agent of client.agents.list()) console.log(agent.id, agent.available);",
    ),
    "getAgent": Calls(
        "agent = client.agent($agent_id)\nprint(agent.name)",
        "const agent = await client.agents.get($agent_id);\nconsole.log(agent.name);",
    ),
    "listRepos": Calls(
        "for repo in client.repos():\n    print(repo.full_name, repo.index_status)",
        "for await (const repo of client.repos.list()) {\n"
        "  console.log(repo.full_name, repo.index_status);\n}",
    ),
    "getRepo": Calls(
        "repo = client.repo($repo_id)\nprint(repo.full_name)",
        "const repo = await client.repos.get($repo_id);\nconsole.log(repo.full_name);",
    ),
    "listDependencies": Calls(
        "for dependency in client.dependencies($repo_id, vulnerable=$vulnerable):\n"
        "    print(dependency.purl)",
        "const filters = { vulnerable: $vulnerable };\n"
        "for await (const dependency of client.repos.dependencies($repo_id, filters)) {\n"
        "  console.log(dependency.purl);\n}",
        query=("vulnerable",),
    ),
    "getCaller": Calls(
        "caller = client.me()\nprint(caller.organization.name)",
        "const caller = await client.me();\nconsole.log(caller.organization.name);",
    ),
    "getUsage": Calls(
        "report = client.usage(since=$since, until=$to, group_by=$group_by)\n"
        "print(report.total.cost_usd)",
        "const report = await client.usage({ from: $since, to: $to, group_by: $group_by });\n"
        "console.log(report.total.cost_usd);",
        query=("from", "to", "group_by"),
    ),
}


def operations_of(document: Document) -> dict[str, Operation]:
    return {
        details["operationId"]: Operation(details["operationId"], method.upper(), path, details)
        for path, methods in document["paths"].items()
        for method, details in methods.items()
    }


def curl(operation: Operation) -> str:
    calls = CALLS[operation.id]
    return curl_example(
        operation.method,
        operation.path,
        operation.details,
        query=calls.query,
        options=calls.curl_options,
    )


def python(operation: Operation) -> str:
    values = {name: python_literal(value) for name, value in _values(operation).items()}
    return Template(CALLS[operation.id].python).substitute(values)


def typescript(operation: Operation) -> str:
    values = {name: typescript_literal(value) for name, value in _values(operation).items()}
    return Template(CALLS[operation.id].typescript).substitute(values)


def python_literal(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{python_literal(key)}: {python_literal(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(python_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def typescript_literal(value: Any) -> str:
    if isinstance(value, dict):
        pairs = [f"{_key(key)}: {typescript_literal(item)}" for key, item in value.items()]
        line = f"{{ {', '.join(pairs)} }}"
        return line if len(line) < MAX_LINE else "{\n" + indent(",\n".join(pairs), "  ") + ",\n}"
    if isinstance(value, list):
        return f"[{', '.join(map(typescript_literal, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else json.dumps(name)


def _values(operation: Operation) -> dict[str, Any]:
    values = {
        each["name"]: each["example"]
        for place in ("path", "query")
        for each in operation.parameters(place)
    }
    if "label" in values:
        values["labels"] = {
            name.removeprefix("label."): value for name, value in values["label"].items()
        }
    # `from` is not a name in Python.
    values["since"] = values.get("from")
    return {**values, **(operation.body or {}), "body": operation.body}
