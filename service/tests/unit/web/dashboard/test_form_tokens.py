"""A form is accepted once: a reload or a second click repeats nothing."""

import pytest

from agentjobs.organizations.api_keys import list_keys
from agentjobs.organizations.form_tokens import form_token, is_valid_token, new_nonce
from agentjobs.webhooks.endpoints import list_endpoints
from service.tests.unit.web.dashboard.browser import ADDRESS

KEYS = "/settings/api-keys"
ALREADY_SUBMITTED = "already submitted"


def fields_of(page, action, **values):
    form = page.form(action)
    unchanged = [(name, value) for name, value in form.fields if name not in values]
    return [*unchanged, *values.items()]


async def test_reloading_after_create_key_creates_no_second_key(dashboard):
    admin = dashboard.admin
    fields = fields_of(await admin.open(KEYS), KEYS, name="CI")
    first = await admin.post(KEYS, fields)
    assert "Copy" in first.text
    before = await list_keys(dashboard.db, "acme")
    repeated = await admin.post(KEYS, fields, Referer=f"{ADDRESS}{KEYS}")
    assert await list_keys(dashboard.db, "acme") == before
    assert repeated.path == KEYS
    assert ALREADY_SUBMITTED in repeated.text
    assert 'class="alert warn"' in repeated.html


async def test_a_rejected_form_can_be_submitted_again(dashboard):
    admin = dashboard.admin
    page = await admin.open(KEYS)
    assert (await admin.post(KEYS, fields_of(page, KEYS, name=""))).status >= 400
    accepted = await admin.post(KEYS, fields_of(page, KEYS, name="CI"))
    assert ALREADY_SUBMITTED not in accepted.text
    assert "CI" in [key.name for key in await list_keys(dashboard.db, "acme")]


@pytest.mark.parametrize(
    ("page", "action", "values"),
    [
        ("/jobs/new", "/jobs", {"repo": "acme/shop", "agent": "fixer"}),
        ("/settings/members", "/settings/members/invitations", {"email": "new@acme.example"}),
        ("/settings/webhooks/{endpoint}", "/rotate", {"overlap_hours": "1"}),
        ("/jobs/{job}", "/again", {}),
    ],
)
async def test_other_forms_that_create_something_are_accepted_once(
    sample_dashboard, page, action, values
):
    samples, admin = sample_dashboard.samples["acme"], sample_dashboard.admin
    address = page.format(endpoint=samples.endpoint, job=samples.finished_job)
    opened = await admin.open(address)
    fields = fields_of(opened, action, **values)
    target = opened.form(action).action
    first = await admin.post(target, fields)
    assert first.status == 200, first.text
    count_statements = await counts(sample_dashboard.db)
    repeated = await admin.post(target, fields)
    assert ALREADY_SUBMITTED in repeated.text
    assert await counts(sample_dashboard.db) == count_statements


async def test_forms_of_one_page_do_not_use_up_each_others_token(sample_dashboard):
    admin, endpoint = sample_dashboard.admin, sample_dashboard.samples["acme"].endpoint
    page = await admin.open(f"/settings/webhooks/{endpoint}")
    for action in ("/disable", "/remove"):
        form = page.form(action)
        assert ALREADY_SUBMITTED not in (await admin.post(form.action, form.fields)).text
    assert endpoint not in [
        endpoint.id for endpoint in await list_endpoints(sample_dashboard.db, "acme")
    ]


async def test_a_token_of_another_session_is_refused(dashboard):
    fields = fields_of(await dashboard.outsider.open(KEYS), KEYS, name="CI")
    error_page = await dashboard.admin.post(KEYS, fields)
    assert error_page.status == 403
    assert "another session" in error_page.text


def test_a_token_is_valid_only_with_the_key_that_made_it():
    token = form_token("key", new_nonce())
    assert is_valid_token("key", token)
    assert not is_valid_token("other", token)
    assert not is_valid_token("", form_token("", new_nonce()))
    assert not is_valid_token("key", form_token("key", ""))
    assert not is_valid_token("key", "key")


async def counts(db):
    tables = ("jobs", "invitations", "webhook_endpoints", "audit_log")
    return [len(await db.fetch_all(f"SELECT 1 FROM {table}")) for table in tables]
