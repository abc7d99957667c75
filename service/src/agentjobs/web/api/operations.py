"""Every operation of v1, and the routes made from them."""

from starlette.routing import Route

from agentjobs.advisories.vulnerability_view import VulnerabilityView
from agentjobs.repos.queries import RepoView
from agentjobs.web.api import (
    agents,
    dependencies,
    examples,
    me,
    pagination,
    pulls,
    repos,
    usage,
    vulnerabilities,
)
from agentjobs.web.api.endpoint import Endpoint
from agentjobs.web.api.job_operations import JOB_OPERATIONS
from agentjobs.web.api.operation import Operation, Parameter, SuccessResponse
from agentjobs.web.context import WebContext

BASE = "/v1"
_TRIED_FIRST = "/jobs/{job_id}"

_REPO = Parameter(
    name="repo_id",
    description="The repository's identifier or full name. The slashes of a full name may be "
    "percent-encoded.",
    schema={"type": "string", "minLength": 1},
    example="acme/shop",
    not_found="repo_not_found",
    spans_segments=True,
)
OPERATIONS: tuple[Operation, ...] = (
    *JOB_OPERATIONS,
    Operation(
        path="/pulls",
        handler=pulls.list_all,
        id="listPulls",
        summary="List pull requests",
        description="Pull requests that jobs opened, newest first.",
        query=pulls.PullQuery,
        response=SuccessResponse("A page of pull requests.", pulls.PullList),
        errors=("repo_not_found",),
    ),
    Operation(
        path="/pulls/{pull_id}",
        handler=pulls.show,
        id="getPull",
        summary="Show a pull request",
        description="A pull request that a job opened. Its state on a platform is as of the last "
        "synchronization.",
        response=SuccessResponse("The pull request.", pulls.PullView),
    ),
    Operation(
        method="POST",
        path="/pulls/{pull_id}/merge",
        handler=pulls.merge,
        id="mergePull",
        summary="Merge a pull request",
        description="Merges it into its base branch, here or on its platform. The API key needs "
        "the scope `pulls`.",
        request=pulls.MergePullRequest,
        request_example=examples.MERGE_PULL,
        write_scope="pulls",
        response=SuccessResponse(
            "The merged pull request.",
            pulls.PullView,
            example_fields={"state": "merged", "merged_at": examples.CLOSED_AT},
        ),
        errors=("pull_not_open", "pull_changed", "pull_not_mergeable", "forge_unavailable"),
    ),
    Operation(
        method="POST",
        path="/pulls/{pull_id}/close",
        handler=pulls.close,
        id="closePull",
        summary="Close a pull request",
        description="Closes it without merging, here or on its platform. The API key needs the "
        "scope `pulls`.",
        write_scope="pulls",
        response=SuccessResponse(
            "The closed pull request.",
            pulls.PullView,
            example_fields={"state": "closed", "closed_at": examples.CLOSED_AT},
        ),
        errors=("pull_not_open", "pull_not_mergeable", "forge_unavailable"),
    ),
    Operation(
        path="/vulnerabilities",
        handler=vulnerabilities.list_all,
        id="listVulnerabilities",
        summary="List vulnerabilities",
        description="What the last scan of each repository found, the most severe first: one "
        "entry for each file, package, version and vulnerability.",
        query=vulnerabilities.VulnerabilityQuery,
        response=SuccessResponse("A page of vulnerabilities.", vulnerabilities.VulnerabilityList),
        errors=("repo_not_found",),
    ),
    Operation(
        method="POST",
        path="/vulnerabilities/{vulnerability_id}/dismiss",
        handler=vulnerabilities.dismiss,
        id="dismissVulnerability",
        summary="Dismiss or snooze a vulnerability",
        description="It is not counted any more and starts no job by itself, in any file of the "
        "repository that has the package; with `until`, until then. A second call replaces the "
        "first.",
        request=vulnerabilities.DismissRequest,
        request_example=examples.DISMISS_VULNERABILITY,
        response=SuccessResponse(
            "The dismissed vulnerability.",
            VulnerabilityView,
            example_fields={**examples.DISMISS_VULNERABILITY, "state": "snoozed"},
        ),
    ),
    Operation(
        method="POST",
        path="/vulnerabilities/{vulnerability_id}/reopen",
        handler=vulnerabilities.reopen_one,
        id="reopenVulnerability",
        summary="Reopen a vulnerability",
        description="Forgets that it was dismissed or snoozed. It may start a job again.",
        response=SuccessResponse("The open vulnerability.", VulnerabilityView),
    ),
    Operation(
        path="/agents",
        handler=agents.list_all,
        id="listAgents",
        summary="List agents",
        description="Every enabled agent type, and whether the organization's plan allows it.",
        query=pagination.PageQuery,
        response=SuccessResponse("The agents.", agents.AgentList),
    ),
    Operation(
        path="/agents/{agent_id}",
        handler=agents.show,
        id="getAgent",
        summary="Show an agent",
        description="What an agent does, its limits, and what `config_override` may contain when "
        "you create a job with it.",
        response=SuccessResponse("The agent.", agents.AgentDetails),
    ),
    Operation(
        path="/repos",
        handler=repos.list_all,
        id="listRepos",
        summary="List repositories",
        description="The connected repositories. Only one whose `index_status` is `ready` "
        "accepts jobs.",
        query=pagination.PageQuery,
        response=SuccessResponse("The repositories.", repos.RepoList),
    ),
    Operation(
        path="/repos/{repo_id}/dependencies",
        handler=dependencies.list_all,
        id="listDependencies",
        summary="List a repository's dependencies",
        description="Direct and transitive dependencies from the manifests and lock files of the "
        "indexed commit, ordered by manifest, direct ones first. Each one lists the advisories "
        "that the last scan found for it, most severe first.",
        query=dependencies.DependencyQuery,
        response=SuccessResponse("A page of dependencies.", dependencies.DependencyList),
        errors=("repo_indexing",),
    ),
    # After the other paths of a repository, because the name of a repository contains slashes.
    Operation(
        path="/repos/{repo_id}",
        handler=repos.show,
        id="getRepo",
        summary="Show a repository",
        description="A connected repository, by its identifier or its full name.",
        parameters=(_REPO,),
        response=SuccessResponse("The repository.", RepoView),
    ),
    Operation(
        path="/me",
        handler=me.show,
        id="getCaller",
        summary="Show the API key and its organization",
        description="Whose key this is, what it may do, and the limits that apply to it.",
        response=SuccessResponse("The key, its organization, plan and limits.", me.CallerView),
    ),
    Operation(
        path="/usage",
        handler=usage.show,
        id="getUsage",
        summary="Show what jobs used",
        description="How many jobs were created in a period, how long their agents ran, and what "
        "their models cost. Jobs count in the period in which they were created, until the "
        "service deletes them (after a year by default).",
        query=usage.UsageQuery,
        response=SuccessResponse("The sums.", usage.UsageReport),
    ),
)


def routes(context: WebContext, operations: tuple[Operation, ...] = OPERATIONS) -> list[Route]:
    """One route per path, in the order in which they are tried: the most frequent one first."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        paths.setdefault(operation.route_path, {})[operation.method] = operation
    return [
        Route(BASE + path, Endpoint(context, by_method))
        for path, by_method in sorted(paths.items(), key=lambda item: item[0] != _TRIED_FIRST)
    ]
