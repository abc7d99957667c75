"""Every address of the dashboard, made from the list of places itself, and how it is asked.

An address with a parameter that is not known here fails, so that a new place is not forgotten.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

import httpx

from agentjobs.identifiers import new_id
from agentjobs.organizations.sessions import session_id
from agentjobs.organizations.tokens import token_hash
from agentjobs.store.database import Database
from agentjobs.web.dashboard.page_route import PageRoute, PublicRoute
from agentjobs.web.dashboard.routes import ROUTES
from tests.unit.web.dashboard.browser import ADDRESS, Browser
from tests.unit.web.dashboard.conftest import Dashboard
from tests.unit.web.dashboard.event_streams import listen
from tests.unit.web.dashboard.platform_data import ACCEPTED, SEEN
from tests.unit.web.dashboard.sample_data import DRAFT, OPEN, SECRET, Things

SIGNED_IN = [place for place in ROUTES if isinstance(place, PageRoute)]
GETS = [place for place in SIGNED_IN if place.method == "GET"]
POSTS = [place for place in SIGNED_IN if place.method == "POST"]
PUBLIC_ROUTES = [place for place in ROUTES if isinstance(place, PublicRoute)]

_PASSWORD = "correct horse battery"
# By the beginning of the path, the longer before the shorter.
_IDS = {
    "/account/sessions/": "session",
    "/repos/imports/": "failed_import",
    "/settings/members/invitations/": "invitation",
    "/settings/api-keys/": "key",
    "/settings/forges/": "connection",
    "/settings/trackers/": "tracker",
    "/settings/webhooks/delivery-log/": "delivery",
    "/settings/webhooks/": "endpoint",
}
# What a form has to say; nothing for those that are only a button.
_FIELDS: Mapping[str, dict[str, str]] = {
    "/account/name": {"name": "Ada"},
    "/account/organization": {"organization": "acme"},
    "/account/password": {"new": _PASSWORD, "again": _PASSWORD},
    "/jobs": {"repo": "acme/shop", "agent": "fixer"},
    "/jobs/{job_id}/follow-up": {"prompt": "And the tax."},
    "/repos": {"address": "https://git.example/me/it.git", "name": "acme/shop"},
    "/repos/{full_name:repo}/auto-trigger": {"level": "high"},
    "/repos/{full_name:repo}/lift": {"pattern": "renovate.json"},
    "/repos/{full_name:repo}/protect": {"pattern": "CODEOWNERS"},
    "/settings/api-keys": {"name": "CI", "scope": "jobs", "expires": "30"},
    "/settings/budgets": {"daily": "5"},
    "/settings/forges": {"platform": "gitlab", "token": ACCEPTED},
    "/settings/forges/{id}/credential": {"token": ACCEPTED},
    "/settings/forges/{id}/repositories": {"repo": SEEN},
    "/settings/members/invitations": {"email": "x@acme.example", "role": "viewer"},
    "/settings/members/{user_id}/role": {"role": "member"},
    "/settings/organization/auto-trigger": {"level": "critical"},
    "/settings/secrets": {"name": SECRET, "value": "sk-another"},
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
    "/{org}/{full_name:repo}/pulls/{number}/comments": {"body": "Well done."},
}


def named(place: PageRoute | PublicRoute) -> str:
    return f"{place.method} {place.path}"


def is_about_somebodys(place: PageRoute | PublicRoute) -> bool:
    """What an address names is an organization's, or a person's; advisories are everybody's."""
    return "{" in place.path.replace("{advisory_id}", "")


def address_of(place: PageRoute | PublicRoute, things: Things) -> str:
    filled = re.sub(
        r"{(\w+)(?::\w+)?}", lambda found: _value(place.path, found[1], things), place.path
    )
    if place.path.endswith("/file"):
        filled += f"?path=src/shop.py&base={things.base}&head={things.head}"
    if place.path.endswith("/graph"):
        filled += f"?{urlencode({'node': things.module})}"
    return filled


def fields_of(place: PageRoute | PublicRoute) -> dict[str, str]:
    return _FIELDS.get(place.path, {})


def ghosts(things: Things) -> Things:
    """Well-formed names of what is nowhere."""
    made_up = {
        name: new_id(value.partition("_")[0])
        for name, value in vars(things).items()
        if re.fullmatch("[a-z]+_[0-9a-z]{26}", value)
    }
    return replace(things, **made_up, organization="ghost", repo="ghost/shop", session="0" * 16)


def with_session_of(things: Things, browser: Browser) -> Things:
    """A session is a person's, not an organization's."""
    token = browser.http.cookies["agentjobs-session-8080"]
    return replace(things, session=session_id(token_hash(token)))


async def ask(
    house: Dashboard,
    browser: Browser,
    place: PageRoute | PublicRoute,
    address: str,
    csrf: str | None = None,
) -> httpx.Response:
    """As the page's own form or link does, without following a redirect."""
    if place.path.endswith("/stream"):
        heard = await listen(house.app, browser, address)
        return httpx.Response(heard.status, content=heard.body)
    if place.method == "GET":
        return await browser.get(address)
    fields = {**fields_of(place), **({} if csrf is None else {"csrf": csrf})}
    form = {"Origin": ADDRESS, "Content-Type": "application/x-www-form-urlencoded"}
    return await browser.http.post(address, content=str(httpx.QueryParams(fields)), headers=form)


async def csrf_of(browser: Browser) -> str:
    return (await browser.open("/account")).form("/sign-out").value("csrf")


async def stored(db: Database) -> dict[str, list[str]]:
    """All that is in the store, but when somebody was seen last and which forms were sent."""
    tables = await db.fetch_all(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        " AND name <> 'used_form_tokens' ORDER BY name"
    )
    found = {}
    for table in (row["name"] for row in tables):
        rows = [dict(row) for row in await db.fetch_all(f"SELECT * FROM {table}")]
        for row in rows:
            row.pop("seen_at", None)
            row.pop("last_used_at", None)
        found[table] = sorted(map(repr, rows))
    return found


def _value(path: str, name: str, things: Things) -> str:
    known = {
        "advisory_id": things.advisory,
        "job_id": things.queued_job if path.endswith("/cancel") else things.finished_job,
        "org": things.organization,
        "full_name": things.repo,
        "number": str(DRAFT if path.endswith("/ready") else OPEN),
        "user_id": things.member,
    }
    if name == "id":
        begun = next((begin for begin in _IDS if path.startswith(begin)), None)
        assert begun is not None, f"{path}: say in this module whose identifier that is"
        return str(getattr(things, _IDS[begun]))
    assert name in known, f"{path}: say in this module what {name} is"
    return known[name]
