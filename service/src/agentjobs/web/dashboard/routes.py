"""All routes of the dashboard."""

from starlette.routing import BaseRoute

from agentjobs.web.context import WebContext
from agentjobs.web.dashboard import (
    account,
    agents,
    invitation,
    overview,
    password_reset,
    search,
    sign_in,
    static_files,
)
from agentjobs.web.dashboard.auth_gate import guarded_routes
from agentjobs.web.dashboard.jobs import (
    artifacts,
    bulk,
    changes,
    creation,
    detail,
    listing,
    log,
    steps,
)
from agentjobs.web.dashboard.operator import organizations as operator_organizations
from agentjobs.web.dashboard.operator import queues, service, workers
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.pulls import changes as pull_changes
from agentjobs.web.dashboard.pulls import comments as pull_comments
from agentjobs.web.dashboard.pulls import detail as pull
from agentjobs.web.dashboard.pulls import listing as pulls
from agentjobs.web.dashboard.repos import dependencies, environment, environment_builds, graph
from agentjobs.web.dashboard.repos import detail as repo
from agentjobs.web.dashboard.repos import listing as repos
from agentjobs.web.dashboard.repos import settings as repo_settings
from agentjobs.web.dashboard.settings import (
    api_keys,
    budgets,
    delivery_log,
    environment_secrets,
    members,
    organization,
    platform,
    platform_repositories,
    platforms,
    secrets,
    trackers,
    webhooks,
)
from agentjobs.web.dashboard.settings.audit_log import page
from agentjobs.web.dashboard.vulnerabilities import actions as vulnerability_actions
from agentjobs.web.dashboard.vulnerabilities import decisions as vulnerability_decisions
from agentjobs.web.dashboard.vulnerabilities import detail as vulnerability
from agentjobs.web.dashboard.vulnerabilities import listing as vulnerabilities

ROUTES: Routes = [
    *sign_in.ROUTES,
    *invitation.ROUTES,
    *password_reset.ROUTES,
    *account.ROUTES,
    *overview.ROUTES,
    *search.ROUTES,
    # Fixed paths before those with parameters.
    *listing.ROUTES,
    *bulk.ROUTES,
    *creation.ROUTES,
    *log.ROUTES,
    *steps.ROUTES,
    *artifacts.ROUTES,
    *changes.ROUTES,
    *detail.ROUTES,
    *repos.ROUTES,
    *dependencies.ROUTES,
    *graph.ROUTES,
    *environment_builds.ROUTES,
    *environment.ROUTES,
    *repo_settings.ROUTES,
    # After the repository's other pages, whose paths it would match.
    *repo.ROUTES,
    *vulnerabilities.ROUTES,
    *vulnerability_actions.ROUTES,
    *vulnerability_decisions.ROUTES,
    *vulnerability.ROUTES,
    *agents.ROUTES,
    *members.ROUTES,
    *api_keys.ROUTES,
    *platforms.ROUTES,
    *platform.ROUTES,
    *platform_repositories.ROUTES,
    *trackers.ROUTES,
    *secrets.ROUTES,
    *environment_secrets.ROUTES,
    *budgets.ROUTES,
    *organization.ROUTES,
    *page.ROUTES,
    *operator_organizations.ROUTES,
    *queues.ROUTES,
    *workers.ROUTES,
    *service.ROUTES,
    # Before webhooks, whose endpoint path would match it.
    *delivery_log.ROUTES,
    *webhooks.ROUTES,
    # Last, because their paths start with an organization name.
    *pulls.ROUTES,
    *pull_changes.ROUTES,
    *pull_comments.ROUTES,
    *pull.ROUTES,
]


def routes(context: WebContext) -> list[BaseRoute]:
    return [*static_files.ROUTES, *guarded_routes(context, ROUTES)]
