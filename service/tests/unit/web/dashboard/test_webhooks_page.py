"""Settings > Webhooks and its delivery log, without a network: what pages show and change."""

import html
import re
import shlex

import msgspec
import pytest

from agentjobs.webhooks.endpoints import disable, list_endpoints
from agentjobs.webhooks.ping import TEST_EVENTS
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.settings import Settings
from service.tests.unit.web.dashboard.browser import PAYLOAD
from service.tests.unit.web.dashboard.event_streams import listen
from tests.support.users import write

URL = "https://192.0.2.10/hook"


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(data_dir=str(tmp_path), webhooks_allow=["192.0.2.0/24"])


async def added(dashboard, url=URL, **values):
    page = await dashboard.admin.open("/settings/webhooks")
    return await dashboard.admin.send(page, "/settings/webhooks", url=url, **values)


async def endpoint_of(dashboard):
    (endpoint,) = await list_endpoints(dashboard.db, "acme")
    return endpoint


async def test_the_secret_of_a_new_endpoint_is_shown_once(dashboard):
    page = await added(dashboard, description="the build server")
    assert page.status == 200
    secret = re.search(r"whsec_[A-Za-z0-9+/=]{44}", page.html)[0]
    endpoint = await endpoint_of(dashboard)
    assert endpoint.description == "the build server"
    assert endpoint.events == ()
    for path in ("/settings/webhooks", f"/settings/webhooks/{endpoint.id}"):
        later = await dashboard.admin.open(path)
        assert later.status == 200
        assert secret not in later.html
        assert "whsec_" not in later.html


async def test_a_rejected_endpoint_keeps_the_entered_values(dashboard):
    page = await added(
        dashboard, url="http://10.0.0.1/x", description="mine", events=["job.failed"]
    )
    assert page.status == 400
    form = page.form("/settings/webhooks")
    assert form.value("url") == "http://10.0.0.1/x"
    assert form.value("description") == "mine"
    assert [value for name, value in form.fields if name == "events"] == ["job.failed"]
    assert await list_endpoints(dashboard.db, "acme") == []


async def test_an_endpoint_is_changed_disabled_enabled_and_removed(dashboard):
    await added(dashboard)
    endpoint = await endpoint_of(dashboard)
    path, admin = f"/settings/webhooks/{endpoint.id}", dashboard.admin
    page = await admin.send(
        await admin.open(path), path, url=f"{URL}/2", events=["job.failed", "job.completed"]
    )
    assert "Saved." in page.text
    assert (await endpoint_of(dashboard)).events == ("job.completed", "job.failed")
    page = await admin.send(page, f"{path}/disable")
    assert "Disabled by an admin." in page.text
    page = await admin.send(page, f"{path}/enable")
    assert (await endpoint_of(dashboard)).enabled
    page = await admin.send(page, f"{path}/remove")
    assert page.path == "/settings/webhooks"
    assert "No webhooks yet" in page.text


async def test_a_rejected_change_keeps_the_entered_values(dashboard):
    await added(dashboard)
    path, admin = f"/settings/webhooks/{(await endpoint_of(dashboard)).id}", dashboard.admin
    typed = {"url": "http://10.0.0.1/x", "description": "mine", "events": ["job.failed"]}
    page = await admin.send(await admin.open(path), path, **typed)
    assert page.status == 400
    form = page.form(path)
    assert (form.value("url"), form.value("description")) == ("http://10.0.0.1/x", "mine")
    assert [value for name, value in form.fields if name == "events"] == ["job.failed"]
    assert (await endpoint_of(dashboard)).url == URL


async def test_a_rotated_secret_signs_together_with_the_old_one_until_promoted(dashboard):
    first = re.search(r"whsec_\S{44}", (await added(dashboard)).text)[0]
    endpoint = await endpoint_of(dashboard)
    path, admin = f"/settings/webhooks/{endpoint.id}", dashboard.admin
    page = await admin.send(await admin.open(path), f"{path}/rotate", overlap_hours="48")
    second = re.search(r"whsec_\S{44}", page.text)[0]
    assert second != first
    page = await admin.send(await admin.open(path), f"{path}/promote")
    assert "new secret is now in use" in page.text
    page = await admin.send(await admin.open(path), f"{path}/rotate", overlap_hours="1000")
    assert page.status == 400
    assert "0 to 168" in page.text


async def test_members_see_endpoints_but_cannot_change_them(dashboard):
    await added(dashboard)
    endpoint = await endpoint_of(dashboard)
    path = f"/settings/webhooks/{endpoint.id}"
    page = await dashboard.member.open(path)
    assert page.status == 200
    assert not page.has_form(f"{path}/remove")
    assert (await dashboard.viewer.open(path)).status == 403
    assert (await dashboard.outsider.open(path)).status == 404


async def test_a_disabled_endpoint_is_reported_on_every_page(dashboard):
    await added(dashboard)
    endpoint = await endpoint_of(dashboard)
    await dashboard.db.transact(disable, endpoint.id, "failing", now_ms())
    assert URL in (await dashboard.member.open("/account")).text
    assert URL not in (await dashboard.outsider.open("/account")).text
    page = await dashboard.member.open(f"/settings/webhooks/{endpoint.id}")
    assert "All deliveries failed for several days" in page.text


async def logged(dashboard, status="failed", **attempt):
    """A delivery with one attempt and a hostile response."""
    endpoint = await endpoint_of(dashboard)
    job_id = await dashboard.harness.job(dashboard.caller)
    delivery_id = (await _deliveries(dashboard, endpoint.id, job_id))[0]

    async def write(tx):
        await tx.execute(
            "UPDATE deliveries SET status = :status, attempts = 1, due_at = :now WHERE id = :id",
            id=delivery_id,
            status=status,
            now=now_ms(),
        )
        values = {
            "status_code": 500,
            "error_class": "http_status",
            "error": f"answered {PAYLOAD}",
            "address": "192.0.2.10",
            "request_headers": msgspec.json.encode([("X-Service-Event", "job.queued")]).decode(),
            "response_headers": msgspec.json.encode([("Server", PAYLOAD)]).decode(),
            "response_body": PAYLOAD.encode() + b"\xff\x00",
            **attempt,
        }
        await tx.execute(
            "INSERT INTO delivery_attempts (delivery_id, id, at, duration_ms, status_code,"
            " error_class, error, address, request_headers, response_headers, response_body)"
            " VALUES (:delivery_id, :id, :at, 12, :status_code, :error_class, :error, :address,"
            " :request_headers, :response_headers, :response_body)",
            delivery_id=delivery_id,
            id=new_id("att"),
            at=now_ms(),
            **values,
        )

    await dashboard.db.transact(write)
    return delivery_id


async def _deliveries(dashboard, endpoint_id, job_id):
    rows = await dashboard.db.fetch_all(
        "SELECT id FROM deliveries WHERE endpoint_id = :endpoint_id AND job_id = :job_id",
        endpoint_id=endpoint_id,
        job_id=job_id,
    )
    return [row["id"] for row in rows]


async def test_the_delivery_log_shows_request_and_response_escaped(dashboard):
    await added(dashboard, description=PAYLOAD)
    delivery_id = await logged(dashboard)
    log = await dashboard.member.open("/settings/webhooks/delivery-log")
    assert f"/settings/webhooks/delivery-log/{delivery_id}" in log.links
    assert "500 in 12 ms" in log.text
    page = await dashboard.member.open(f"/settings/webhooks/delivery-log/{delivery_id}")
    assert "X-Service-Event: job.queued" in page.text
    assert "<script>alert(1)</script>" in page.text
    for each in (log, page, await dashboard.member.open("/settings/webhooks")):
        assert each.is_safe()


async def test_the_delivery_log_is_filtered_and_has_empty_states(dashboard):
    assert (
        "No deliveries yet" in (await dashboard.member.open("/settings/webhooks/delivery-log")).text
    )
    await added(dashboard)
    delivery_id = await logged(dashboard)
    page = await dashboard.member.open("/settings/webhooks/delivery-log")
    page = await dashboard.member.send(page, "/settings/webhooks/delivery-log", status="failed")
    assert delivery_id in page.html
    page = await dashboard.member.send(page, "/settings/webhooks/delivery-log", status="delivered")
    assert "No deliveries match these filters" in page.text


async def test_one_or_all_failed_deliveries_are_redelivered(dashboard):
    await added(dashboard)
    delivery_id, other_id = await logged(dashboard), await logged(dashboard)
    path = f"/settings/webhooks/delivery-log/{delivery_id}"
    page = await dashboard.member.send(await dashboard.member.open(path), f"{path}/redeliver")
    assert "Redelivery started" in page.text
    log = await dashboard.member.open("/settings/webhooks/delivery-log?status=failed")
    assert other_id in log.html
    assert delivery_id not in log.html
    page = await dashboard.member.send(log, "/redeliver-failed", days="7")
    assert "Redelivering 1 failed deliveries." in page.text
    assert (await dashboard.outsider.open(path)).status == 404


async def test_selected_deliveries_are_redelivered_and_the_rest_is_explained(dashboard):
    await added(dashboard)
    first, second, third = [await logged(dashboard) for _ in range(3)]
    path = "/settings/webhooks/delivery-log"
    log = await dashboard.member.open(path)
    page = await dashboard.member.send(
        log, f"{path}/redeliver-selected", delivery=[first, second, second, "dlv_unknown"]
    )
    assert "Redelivering 2 deliveries. 1 unchanged: There is no such delivery" in page.text
    failed = await dashboard.member.open(f"{path}?status=failed")
    assert third in failed.html
    assert first not in failed.html
    page = await dashboard.member.send(failed, f"{path}/redeliver-selected", delivery=None)
    assert "Select deliveries first." in page.text


async def test_a_delivery_is_shown_as_a_command(dashboard):
    await added(dashboard)
    headers = [("Host", "x"), ("webhook-id", "it's"), ("content-type", "application/json")]
    delivery = await logged(dashboard, request_headers=msgspec.json.encode(headers).decode())
    page = await dashboard.member.open(f"/settings/webhooks/delivery-log/{delivery}")
    command = html.unescape(page.html.partition('id="curl"')[2].partition("</pre>")[0])
    words = shlex.split(command.partition(">")[2].replace("\\\n", " "))
    assert words[0] == "curl"
    assert "webhook-id: it's" in words
    assert not [word for word in words if word.startswith("Host")]
    body = words[words.index("--data-raw") + 1]
    assert f'"{delivery}"' not in body
    assert msgspec.json.decode(body)["event"] == "job.queued"
    assert '"event": "job.queued"' in page.text


async def test_a_failed_ping_is_shown_as_a_failure(sample_dashboard):
    # The address is blocked, so nothing is sent.
    await write(sample_dashboard.db, "UPDATE webhook_endpoints SET url = 'https://10.0.0.1/'")
    path = f"/settings/webhooks/{sample_dashboard.samples['acme'].endpoint}"
    page = await sample_dashboard.admin.send(await sample_dashboard.admin.open(path), "/test")
    assert '<p class="alert bad" role="alert">The test was not delivered.</p>' in page.html
    assert "alert good" not in page.html


async def test_samples_of_all_events_are_shown_and_one_is_sent_as_a_test(sample_dashboard):
    admin = sample_dashboard.admin
    path = f"/settings/webhooks/{sample_dashboard.samples['acme'].endpoint}"
    for event in TEST_EVENTS:
        page = await admin.open(f"{path}?event={event}")
        body = html.unescape(page.html.partition(f'"Sample of {event}">')[2].partition("</pre>")[0])
        assert msgspec.json.decode(body)["event"] == event
        assert page.form("/test").value("event") == event
    # The address is blocked, so nothing is sent.
    await write(sample_dashboard.db, "UPDATE webhook_endpoints SET url = 'https://10.0.0.1/'")
    page = await admin.send(page, "/test", event="job.failed")
    assert "job.failed to https://10.0.0.1/" in page.text
    assert "sent as a test" in page.text
    assert not page.has_form("/redeliver")
    page = await admin.send(await admin.open(path), "/test", event="job.done")
    assert page.status == 400
    assert "Unknown event" in page.text
    assert not (await sample_dashboard.member.open(path)).has_form("/test")


async def test_the_state_of_an_endpoint_follows_from_what_happens_now(dashboard):
    await added(dashboard)
    endpoint = await endpoint_of(dashboard)
    paths = ("/settings/webhooks", f"/settings/webhooks/{endpoint.id}")

    async def states():
        return [(await dashboard.member.open(path)).text for path in paths]

    for text in await states():
        assert "no deliveries yet" in text
    await logged(dashboard, "pending")
    change = "UPDATE webhook_endpoints SET last_success_at = 1, failing_since = NULL"
    await write(dashboard.db, change)
    for text in await states():
        assert "retrying 1" in text
        assert "next retry" in text
    await write(dashboard.db, "UPDATE webhook_endpoints SET failing_since = 1")
    for text in await states():
        assert "failing since 1970-01-01" in text
    await write(dashboard.db, "UPDATE deliveries SET status = 'delivered'")
    await write(dashboard.db, change)
    for text in await states():
        assert "healthy" in text


async def test_pages_of_webhooks_are_live(dashboard):
    await added(dashboard)
    delivery_id = await logged(dashboard, "pending")
    endpoint = await endpoint_of(dashboard)
    for path, number, parts in (
        ("/settings/webhooks", 1, {"settings/webhook_rows"}),
        (
            f"/settings/webhooks/{endpoint.id}",
            2,
            {"settings/webhook_state", "settings/webhook_deliveries"},
        ),
        ("/settings/webhooks/delivery-log", 1, {"settings/delivery_list"}),
        (
            f"/settings/webhooks/delivery-log/{delivery_id}",
            2,
            {"settings/delivery_state", "settings/delivery_attempts"},
        ),
    ):
        page = await dashboard.member.open(path)
        address = re.search('data-live="([^"]+)"', page.html)[1]
        stream = await listen(dashboard.app, dashboard.member, address, events=number)
        assert stream.parts().keys() == parts
        for part in parts:
            assert f'id="{part}"' in page.html
            assert stream.parts()[part].is_safe()


async def test_an_empty_delivery_log_shows_its_first_delivery_live(dashboard):
    await added(dashboard)
    page = await dashboard.member.open("/settings/webhooks/delivery-log")
    assert "No deliveries yet" in page.text
    delivery_id = await logged(dashboard)
    address = re.search('data-live="([^"]+)"', page.html)[1]
    stream = await listen(dashboard.app, dashboard.member, address, events=1)
    assert delivery_id in stream.parts()["settings/delivery_list"].html


async def test_the_page_of_an_endpoint_plots_its_deliveries(dashboard):
    await added(dashboard)
    await logged(dashboard, "delivered", error_class=None, error=None)
    path = f"/settings/webhooks/{(await endpoint_of(dashboard)).id}"
    for span in ("24h", "7d", "30d", "1000y"):
        page = await dashboard.member.open(f"{path}?span={span}")
        assert "100 % delivered" in page.text
        assert "12 ms median, 12 ms 95th percentile" in page.text
        assert "Deliveries: delivered highest 1" in page.html
        assert page.is_safe()
