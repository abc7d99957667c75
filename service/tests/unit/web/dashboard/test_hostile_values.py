"""Every route with values that no page sends: refused or ignored, never an internal error.

The names of parameters and fields are those that the handlers read, so that new ones are included.
"""

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from agentjobs.web import dashboard
from service.tests.unit.web.dashboard.addresses import (
    GETS,
    POSTS,
    address_of,
    csrf_of,
    describe_route,
    fields_of,
)
from service.tests.unit.web.dashboard.browser import ADDRESS
from service.tests.unit.web.dashboard.platform_data import use_jira_double
from tests.support.users import make_passwords_cheap, write

_HANDLERS = "\n".join(
    path.read_text() for path in sorted(Path(dashboard.__path__[0]).rglob("*.py"))
)
_FIELDS = sorted(
    set(re.findall(r'\.(?:text|raw|all|flag|optional|whole_number)\(\s*"(\w+)"', _HANDLERS))
)
_PARAMETERS = sorted(set(re.findall(r'(?:query_param|get)\("([a-z_]+)"', _HANDLERS)))
# NUL is sent in addresses only: no form with it is read.
_VALUES = ("9" * 30, "²", "A" * 5_000, "9999-12-31", "a\x01\nb/../c:(glob)*!%_'\"<é😀")
# The whole query has to fit into an address.
_MAX_IN_QUERY = 700
_IN_PATHS = ("%00", "%FF", "9" * 30, "A" * 52_000)
_FORM = {"Origin": ADDRESS, "Content-Type": "application/x-www-form-urlencoded"}
# Streams do not end by themselves, and these end the session that sends the others.
_UNSENT = ("/stream", "/sign-out", "/account/sessions/end-all", "/account/sessions/{id}/end")


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch):
    make_passwords_cheap(monkeypatch)
    use_jira_double(monkeypatch)


async def test_no_page_fails_with_values_that_no_link_has(sample_dashboard):
    admin, samples = await _operator(sample_dashboard), sample_dashboard.samples["acme"]
    failed = []
    for route in (each for each in GETS if not each.path.endswith(_UNSENT)):
        address = address_of(route, samples)
        link = "&" if "?" in address else "?"
        addresses = [
            f"{address}{link}{urlencode(dict.fromkeys(_PARAMETERS, value[:_MAX_IN_QUERY]))}"
            for value in _VALUES
        ]
        addresses += [
            address_of(replace(route, path=route.path.replace(name, value)), samples)
            for name in re.findall("{[^}]*}", route.path)
            for value in _IN_PATHS
        ]
        for each in addresses:
            response = await admin.http.get(each)
            if response.status_code >= 500:
                failed.append((describe_route(route), each[:200], response.status_code))
    assert not failed


async def test_no_form_fails_with_values_that_no_page_sends(sample_dashboard):
    admin, samples = await _operator(sample_dashboard), sample_dashboard.samples["acme"]
    failed = []
    for route in (each for each in POSTS if not each.path.endswith(_UNSENT)):
        for value in _VALUES:
            fields = {**dict.fromkeys(_FIELDS, value), "csrf": await csrf_of(admin)}
            content = urlencode([*fields.items(), *fields_of(route).items()])
            response = await admin.http.post(
                address_of(route, samples), content=content, headers=_FORM
            )
            if response.status_code >= 500:
                failed.append((describe_route(route), value[:20], response.status_code))
    assert not failed


async def _operator(dashboard):
    await write(dashboard.db, "UPDATE users SET is_operator = :yes", yes=True)
    return dashboard.admin
