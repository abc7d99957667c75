"""An address and form fields for every route of the dashboard.

Fails for unknown path parameters, so that no new route is forgotten.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

import httpx

from agentjobs.organizations.sessions import session_id
from agentjobs.organizations.tokens import token_hash
from agentjobs.store.database import Database
from agentjobs.web.dashboard.page_route import PageRoute, PublicRoute
from agentjobs.web.dashboard.routes import ROUTES
from agentjobs_runtime.identifiers import new_id
from service.tests.unit.web.dashboard.browser import ADDRESS, Browser
from service.tests.unit.web.dashboard.conftest import Dashboard
from service.tests.unit.web.dashboard.event_streams import listen
from service.tests.unit.web.dashboard.index_data import ADVISORY
from service.tests.unit.web.dashboard.job_data import ARTIFACT
from service.tests.unit.web.dashboard.platform_data import ACCEPTED, SEEN
from service.tests.unit.web.dashboard.sample_data import DRAFT, OPEN, SECRET, SampleIds

SIGNED_IN = [route for route in ROUTES if isinstance(route, PageRoute)]
GETS = [route for route in SIGNED_IN if route.method == "GET"]
POSTS = [route for route in SIGNED_IN if route.method == "POST"]
PUBLIC_ROUTES = [route for route in ROUTES if isinstance(route, PublicRoute)]

_PASSWORD = "correct horse battery"
# By path prefix, longer prefixes first.
_IDS = {
    "/account/sessions/": "session",
    "/repos/imports/": "failed_import",
    "/settings/members/invitations/": "invitation",
    "/settings/api-keys/": "key",
    "/settings/platforms/": "connection",
    "/settings/trackers/": "tracker",
    "/settings/webhooks/delivery-log/": "delivery",
    "/settings/webhooks/": "endpoint",
    "/operator/workers/": "worker",
}
# The fields of each form; forms that are only a button have none.
_FIELDS: Mapping[str, dict[str, str]] = {
    "/account/name": {"name": "Ada"},
    "/account/organization": {"organization": "acme"},
    "/account/password": {"new": _PASSWORD, "again": _PASSWORD},
    "/jobs": {"repo": "acme/shop", "agent": "fixer"},
    "/jobs/{job_id}/follow-up": {"prompt": "And the tax."},
    "/operator/organizations/{name}/budget": {"daily": "5"},
    "/operator/organizations/{name}/plan": {"plan": "free"},
    "/repos": {"address": "https://git.example/me/it.git", "name": "acme/shop"},
    "/repos/{full_name:path}/auto-trigger": {"level": "high"},
    "/repos/{full_name:path}/environment": {"definition": "[environment]\nimage = 'python:3.12'"},
    "/repos/{full_name:path}/environment/trusted-branches": {"branches": "develop"},
    "/repos/{full_name:path}/lift": {"pattern": "renovate.json"},
    "/repos/{full_name:path}/protect": {"pattern": "CODEOWNERS"},
    "/settings/api-keys": {"name": "CI", "scope": "jobs", "expires": "30"},
    "/settings/api-keys/{id}": {"name": "Build", "expires": "unchanged"},
    "/settings/budgets": {"daily": "5"},
    "/settings/platforms": {"platform": "gitlab", "token": ACCEPTED},
    "/settings/platforms/{id}/credential": {"token": ACCEPTED},
    "/settings/platforms/{id}/installation": {"installation_id": "9"},
    "/settings/platforms/{id}/repositories": {"repo": SEEN},
    "/settings/platforms/{id}/signing": {"signing": "ssh"},
    "/settings/members/invitations": {"email": "x@acme.example", "role": "viewer"},
    "/settings/members/{user_id}/role": {"role": "member"},
    "/settings/organization/auto-trigger": {"level": "critical"},
    "/settings/secrets": {"name": SECRET, "value": "sk-another"},
    "/settings/secrets/environments": {
        "name": "NPM_TOKEN",
        "purpose": "setup",
        "repo": "acme/shop",
        "value": "npm-another",
    },
    "/settings/secrets/environments/remove": {"name": "NPM_TOKEN", "repo": "acme/shop"},
    "/settings/secrets/remove": {"name": SECRET},
    "/settings/trackers/jira": {
        "url": "https://jira.example.com",
        "token": ACCEPTED,
        "name": "desk",
    },
    "/settings/trackers/{id}/link-back": {"link_back": "yes"},
    "/settings/trackers/{id}/token": {"token": ACCEPTED},
    "/settings/webhooks": {"url": "https://192.0.2.10/new"},
    "/settings/webhooks/delivery-log/redeliver-failed": {"days": "7"},
    "/settings/webhooks/{id}": {"url": "https://192.0.2.10/changed"},
    "/settings/webhooks/{id}/rotate": {"overlap_hours": "24"},
    "/vulnerabilities/packages/{finding_id}/dismiss": {
        "chosen": ADVISORY,
        "reason": "risk_accepted",
    },
    "/{org}/{full_name:path}/pulls/{number}/comments": {"body": "Well done."},
    "/{org}/{full_name:path}/pulls/{number}/files/comments": {
        "path": "src/shop.py",
        "line": "1",
        "body": "Why?",
    },
}


def describe_route(route: PageRoute | PublicRoute) -> str:
    return f"{route.method} {route.path}"


def names_resource(route: PageRoute | PublicRoute) -> bool:
    """Whether the URL names a resource of an organization or a user; advisories are shared."""
    return "{" in route.path.replace("{advisory_id}", "")


def address_of(route: PageRoute | PublicRoute, samples: SampleIds) -> str:
    filled = re.sub(
        r"{(\w+)(?::\w+)?}", lambda match: _value(route.path, match[1], samples), route.path
    )
    if route.path.endswith("/file"):
        filled += f"?path=src/shop.py&base={samples.base}&head={samples.head}"
    if route.path.endswith("/viewed"):
        filled += "?blob=abc123"
    if route.path.endswith("/graph"):
        filled += f"?{urlencode({'node': samples.module})}"
    return filled


def fields_of(route: PageRoute | PublicRoute) -> dict[str, str]:
    return _FIELDS.get(route.path, {})


def unknown_ids(samples: SampleIds) -> SampleIds:
    """Well-formed IDs of resources that do not exist."""
    unknown = {
        name: new_id(value.partition("_")[0])
        for name, value in vars(samples).items()
        if re.fullmatch("[a-z]+_[0-9a-z]{26}", value)
    }
    return replace(samples, **unknown, organization="ghost", repo="ghost/shop", session="0" * 16)


def with_session_of(samples: SampleIds, browser: Browser) -> SampleIds:
    """Sessions belong to users, so the session is that of the browser."""
    token = browser.http.cookies["agentjobs-session-8080"]
    return replace(samples, session=session_id(token_hash(token)))


async def send_request(
    dashboard: Dashboard,
    browser: Browser,
    route: PageRoute | PublicRoute,
    address: str,
    csrf: str | None = None,
) -> httpx.Response:
    """Send the request of the page's form or link, without following redirects."""
    if route.path.endswith("/stream"):
        stream = await listen(dashboard.app, browser, address)
        return httpx.Response(stream.status, content=stream.body)
    if route.method == "GET":
        return await browser.get(address)
    fields = {**fields_of(route), **({} if csrf is None else {"csrf": csrf})}
    form = {"Origin": ADDRESS, "Content-Type": "application/x-www-form-urlencoded"}
    return await browser.http.post(address, content=str(httpx.QueryParams(fields)), headers=form)


async def csrf_of(browser: Browser) -> str:
    return (await browser.open("/account")).form("/sign-out").value("csrf")


async def store_contents(db: Database) -> dict[str, list[str]]:
    """All rows by table, except times of last use and used form tokens."""
    tables = await db.fetch_all(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        " AND name <> 'used_form_tokens' ORDER BY name"
    )
    contents = {}
    for table in (row["name"] for row in tables):
        rows = [dict(row) for row in await db.fetch_all(f"SELECT * FROM {table}")]
        for row in rows:
            row.pop("seen_at", None)
            row.pop("last_used_at", None)
        contents[table] = sorted(map(repr, rows))
    return contents


def _value(path: str, name: str, samples: SampleIds) -> str:
    values = {
        "advisory_id": samples.advisory,
        "finding_id": samples.finding,
        "key": hashlib.sha256(b"src/shop.py").hexdigest()[:10],
        "job_id": samples.queued_job if path.endswith("/cancel") else samples.finished_job,
        "name": samples.organization if path.startswith("/operator") else ARTIFACT,
        "org": samples.organization,
        "full_name": samples.repo,
        "number": str(DRAFT if path.endswith("/ready") else OPEN),
        "user_id": samples.member,
    }
    if name == "id":
        prefix = next((candidate for candidate in _IDS if path.startswith(candidate)), None)
        assert prefix is not None, f"{path}: add the prefix to _IDS in this module"
        return str(getattr(samples, _IDS[prefix]))
    assert name in values, f"{path}: add {name} to _value in this module"
    return values[name]
