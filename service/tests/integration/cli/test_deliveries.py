"""`agentjobs webhooks deliveries`, `show` and `redeliver` as an operator types them."""

import asyncio
import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from agentjobs.organizations.organizations import create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.store.opening import open_database
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.settings import Settings
from tests.support.cli_process import until
from tests.support.deliveries import DeliveryHarness, attempt
from tests.support.in_process_cli import InProcessCommandLine
from tests.support.receiver import receiver

ESCAPE = "\x1b]0;owned\x07"
# Control sequences and bidirectional overrides that a terminal interprets.
ORDERS = [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F]
ORDERS += [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
ORDERED = "".join(map(chr, ORDERS))


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    return InProcessCommandLine(capsys, tmp_path / "data", AGENTJOBS_WEBHOOKS_ALLOW="127.0.0.0/8")


class DeliveryHistory:
    """Creates deliveries in the store before a command runs."""

    def __init__(self, agentjobs):
        self._url = f"sqlite:///{agentjobs.data_dir / 'agentjobs.db'}"

    def run(self, operation):
        return asyncio.run(self._run(operation))

    async def _run(self, operation):
        db = await open_database(self._url, migrate=False)
        try:
            return await operation(db, DeliveryHarness(db))
        finally:
            await db.close()

    def endpoint(self, org="acme"):
        async def operation(db, harness):
            plans = Plans(Settings(data_dir="").plans)
            organization = await create_organization(db, plans, org, "pro")
            return organization.id, await harness.endpoint(organization.id)

        return self.run(operation)

    def events(self, organization_id, *answers):
        """Creates one delivery for each final attempt."""

        async def operation(_db, harness):
            ids = []
            for answer in answers:
                await harness.event(organization_id, new_id("job"))
                (delivery,) = await harness.claim()
                ids.append(delivery.id)
                await harness.record((replace(delivery, failures=3), answer))
            return ids

        return self.run(operation)

    def change(self, endpoint_id, **columns):
        async def operation(_db, harness):
            await harness.change_endpoint(endpoint_id, **columns)

        self.run(operation)


@pytest.fixture
def history(agentjobs):
    return DeliveryHistory(agentjobs)


@pytest.fixture
def log(agentjobs):
    return lambda *more: agentjobs("webhooks", "deliveries", "--org", "acme", "--json", *more)


def ids(answer):
    return [delivery["id"] for delivery in answer.document]


def test_the_log_is_an_array_with_every_attempt(history, log):
    organization, endpoint = history.endpoint()
    (bad, good) = history.events(organization, attempt(500), attempt(200))
    newest, oldest = log().document
    assert (newest["id"], oldest["id"]) == (good, bad)
    assert oldest["endpoint"] == endpoint
    assert oldest["url"] == f"https://receiver.example/{endpoint}"
    assert (oldest["event"], oldest["status"]) == ("job.queued", "failed")
    assert oldest["job_id"].startswith("job_")
    assert oldest["next_attempt_at"] is None
    (first_attempt,) = oldest["attempts"]
    assert first_attempt.pop("at").endswith("Z")
    assert first_attempt == {
        "status_code": 500,
        "error_class": "http_status",
        "error": "it did not go well",
        "duration_ms": 7,
        "address": "203.0.113.7:443",
    }


def test_an_empty_log_is_an_empty_array(agentjobs):
    assert agentjobs("webhooks", "deliveries", "--json").document == []
    shown = agentjobs("webhooks", "deliveries")
    assert (shown.exit_code, shown.out.count("\n"), shown.err) == (0, 1, "")


def test_filters_select_deliveries(history, log):
    organization, endpoint = history.endpoint()
    bad, good = history.events(organization, attempt(500), attempt(200))
    job = log("--status", "failed").document[0]["job_id"]
    assert ids(log("--status", "delivered")) == [good]
    assert ids(log("--status", "pending")) == []
    assert ids(log("--job", job)) == [bad]
    assert ids(log("--endpoint", endpoint)) == [good, bad]
    assert ids(log("--endpoint", f"https://receiver.example/{endpoint}")) == [good, bad]
    assert ids(log("--since", "1h")) == [good, bad]
    soon = datetime.now(UTC) + timedelta(hours=1)
    for later in (soon.isoformat(), soon.strftime("%Y-%m-%dT%H:%M")):
        assert ids(log("--since", later)) == []


def test_a_page_shows_how_to_get_the_next_one(history, log):
    organization, _ = history.endpoint()
    delivery_ids = history.events(organization, *(attempt(200) for _ in range(3)))
    first = log("--limit", "2")
    assert ids(first) == delivery_ids[:0:-1]
    assert f"--before {delivery_ids[1]}" in first.err
    second = log("--limit", "2", "--before", delivery_ids[1])
    assert (ids(second), second.err) == ([delivery_ids[0]], "")


def test_another_organization_has_another_log(history, log, agentjobs):
    organization, endpoint = history.endpoint()
    (delivery_id,) = history.events(organization, attempt(500))
    assert agentjobs("webhooks", "deliveries", "--json").document == []
    for arguments in (
        ("show", delivery_id),
        ("redeliver", delivery_id),
        ("deliveries", "--endpoint", endpoint),
        ("redeliver", "--failed-since", "1h", "--endpoint", endpoint),
    ):
        refused = agentjobs("webhooks", *arguments)
        assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert "The organization 'default' has no" in refused.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("deliveries", "--status", "lost"),
        ("deliveries", "--since", "yesterday"),
        ("deliveries", "--limit", "0"),
        ("deliveries", "--org", "nobody"),
        ("deliveries", "--endpoint", "whk_none"),
        ("show",),
        ("show", "dlv_none"),
        ("redeliver",),
        ("redeliver", "dlv_none"),
        ("redeliver", "dlv_1", "--failed-since", "1h"),
        ("redeliver", "dlv_1", "--endpoint", "whk_1"),
        ("redeliver", "--endpoint", "whk_1"),
        ("redeliver", "--failed-since", "soon"),
    ],
)
def test_invalid_options_are_one_line_errors(agentjobs, arguments):
    refused = agentjobs("webhooks", *arguments)
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err.startswith("agentjobs: ")
    assert refused.err.count("\n") == 1


def test_one_delivery_is_shown_with_request_and_response(history, agentjobs):
    organization, _ = history.endpoint()
    answered = replace(
        attempt(500, headers=[("X-Odd", f"a{ESCAPE}b"), ("Set-Cookie", "a"), ("Set-Cookie", "b")]),
        response_body=b"<h1>no</h1>",
    )
    binary = replace(attempt(500), response_body=b"\xff\xfe")
    text_id, binary_id = history.events(organization, answered, binary)

    document = agentjobs("webhooks", "show", text_id, "--org", "acme", "--json").document
    assert json.loads(document["request_body"])["event"] == "job.queued"
    assert document["request_body_base64"] is None
    assert (document["event_id"][:4], document["sequence"]) == ("evt_", 1)
    (logged_attempt,) = document["attempts"]
    assert logged_attempt["request_headers"] == [["Host", "receiver.example"]]
    assert logged_attempt["response_headers"][1:] == [["Set-Cookie", "a"], ["Set-Cookie", "b"]]
    assert (logged_attempt["response_body"], logged_attempt["error"]) == (
        "<h1>no</h1>",
        "it did not go well",
    )

    shown = agentjobs("webhooks", "show", text_id, "--org", "acme").out
    for text in ("job.queued (failed)", '"event":"job.queued"', "status 500", "<h1>no</h1>"):
        assert text in shown
    assert "http_status: it did not go well" in shown
    assert r"X-Odd: a\x1b]0;owned\x07b" in shown

    (logged_attempt,) = agentjobs(
        "webhooks", "show", binary_id, "--org", "acme", "--json"
    ).document["attempts"]
    assert (logged_attempt["response_body"], logged_attempt["response_body_base64"]) == (
        None,
        "//4=",
    )
    assert "2 bytes of binary data" in agentjobs(
        "webhooks", "show", binary_id, "--org", "acme"
    ).out  # fmt: skip


def test_no_control_sequence_of_a_response_reaches_a_terminal(history, agentjobs):
    organization, _ = history.endpoint()
    body = f"first\n\tsecond{ORDERED}end"
    answered = replace(
        attempt(500, headers=[("X-Odd", f"a{ORDERED}b")]),
        response_body=body.encode(),
        error=f"it said {ORDERED}",
    )
    (delivery_id,) = history.events(organization, answered)
    out = agentjobs("webhooks", "show", delivery_id, "--org", "acme").out
    assert not set(ORDERED) & set(out)
    escaped = "".join(repr(each)[1:-1] for each in ORDERED)
    for text in (f"first\n\tsecond{escaped}end", f"X-Odd: a{escaped}b", f"it said {escaped}"):
        assert text in out
    document = agentjobs("webhooks", "show", delivery_id, "--org", "acme", "--json").document
    assert document["attempts"][0]["response_body"] == body


def test_a_terminal_shows_a_table(history, agentjobs):
    organization, _ = history.endpoint()
    never = attempt(None, error="dns")
    history.events(organization, attempt(500), never)
    lines = agentjobs("webhooks", "deliveries", "--org", "acme").out.splitlines()
    assert lines[0].startswith("id\tcreated\tevent\tjob\tendpoint\tstatus")
    assert [line.split("\t")[5:8] for line in lines[1:]] == [
        ["failed", "1", "dns"],
        ["failed", "1", "500"],
    ]


def test_one_delivery_is_redelivered_unless_its_endpoint_is_closed(history, agentjobs, log):
    organization, endpoint = history.endpoint()
    first_id, second_id = history.events(organization, attempt(500), attempt(200))
    done = agentjobs("webhooks", "redeliver", first_id, "--org", "acme")
    assert (done.exit_code, done.out) == (0, f"{first_id}\n")
    assert f"`agentjobs webhooks show {first_id} --org acme`" in done.err
    repeated = agentjobs("webhooks", "redeliver", second_id, "--org", "acme", "--json")
    assert repeated.document == {"id": second_id, "status": "pending"}
    for delivery in log("--status", "pending").document:
        assert delivery["next_attempt_at"] is not None
    history.change(endpoint, disabled_at=now_ms(), disabled_reason="gone")
    refused = agentjobs("webhooks", "redeliver", first_id, "--org", "acme")
    assert refused.exit_code == 2
    assert f"`agentjobs webhooks enable {endpoint} --org acme`" in refused.err


def test_all_deliveries_that_failed_since_a_time_are_redelivered(history, agentjobs, log):
    organization, endpoint = history.endpoint()
    long_ago = attempt(500, at=now_ms() - 7_200_000)
    old, *recent = history.events(organization, long_ago, attempt(500), attempt(500), attempt(200))
    done = agentjobs("webhooks", "redeliver", "--failed-since", "1h", "--org", "acme")
    assert (done.exit_code, done.out) == (0, "2\n")
    assert ids(log("--status", "pending")) == recent[1::-1]
    history.change(endpoint, disabled_at=now_ms(), disabled_reason="by_hand")
    arguments = ("webhooks", "redeliver", "--failed-since", "7d", "--org", "acme")
    left = agentjobs(*arguments)
    assert left.out == "0\n"
    assert "1 were skipped" in left.err
    assert "`agentjobs webhooks list --org acme`" in left.err
    assert agentjobs(*arguments, "--json").document == {"redelivered": 0, "skipped": 1}
    assert ids(log("--status", "failed")) == [old]


def test_a_running_service_sends_redeliveries(agentjobs, history):
    answers = iter([500])
    with receiver(lambda _: next(answers, 204)) as there:
        agentjobs("webhooks", "add", there.url)
        service = agentjobs.with_settings(AGENTJOBS_PORT="0")
        with service.running("up"):
            (endpoint,) = agentjobs("webhooks", "list", "--json").document["webhooks"]
            assert agentjobs("webhooks", "test", endpoint["id"]).exit_code == 1
            listed = ("webhooks", "deliveries", "--json")
            (ping,) = agentjobs(*listed).document
            assert (ping["event"], ping["status"]) == ("ping", "failed")
            refused = agentjobs("webhooks", "redeliver", ping["id"])
            assert f"webhooks test {endpoint['id']}" in refused.err

            async def queue(db, harness):
                row = await db.fetch_one("SELECT id FROM organizations")
                await harness.event(row["id"], new_id("job"))

            history.run(queue)
            there.wait_for(2)
            delivered = ("webhooks", "deliveries", "--status", "delivered", "--json")
            until(lambda: len(agentjobs(*delivered).document) == 1)
            (first,) = agentjobs(*delivered).document
            assert agentjobs("webhooks", "redeliver", first["id"]).exit_code == 0
            _, once, twice = there.wait_for(3)
            assert once.headers["webhook-id"] == twice.headers["webhook-id"]
            assert once.headers["X-Service-Delivery"] == twice.headers["X-Service-Delivery"]
            assert once.body == twice.body
            # The delivery is pending again until the second attempt is recorded.
            until(lambda: [len(each["attempts"]) for each in agentjobs(*delivered).document] == [2])
