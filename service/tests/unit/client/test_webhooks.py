"""Which webhook deliveries the client's verifier accepts and which it rejects."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook

from agentjobs.webhooks.model import ClaimedDelivery, SealedSecrets, Secrets
from agentjobs.webhooks.signing import new_secret, signed_headers
from agentjobs_client import ClientError, InvalidSignature, UnknownPayload, verify_webhook

OLD = "whsec_" + base64.b64encode(b"o" * 32).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()
NOW = 1_700_000_000
PAYLOAD = {
    "event": "job.completed",
    "job_id": "job_1",
    "repo": "acme/shop",
    "pr_url": "https://agentjobs.example.com/acme/shop/pulls/1",
    "timestamp": "2023-11-14T22:13:20.000Z",
}
BODY = json.dumps(PAYLOAD).encode()


def body_signature(secret: str, body: bytes = BODY) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def timestamped_signature(secret: str, body: bytes = BODY, at: int = NOW) -> str:
    return Webhook(secret).sign("evt_1", datetime.fromtimestamp(at, UTC), body.decode())


def signed(secret: str = OLD, body: bytes = BODY, at: int = NOW, **changes: str) -> dict[str, str]:
    """The headers of a delivery, computed without the service's code."""
    return {
        "Content-Type": "application/json",
        "X-Service-Event": "job.completed",
        "X-Service-Delivery": "dlv_1",
        "X-Service-Sequence": "3",
        "X-Service-Signature-256": body_signature(secret, body),
        "webhook-id": "evt_1",
        "webhook-timestamp": str(at),
        "webhook-signature": timestamped_signature(secret, body, at),
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }


def without(headers: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in names}


def verify(headers: dict[str, str], secret=OLD, body: bytes = BODY, now: float = NOW, **options):
    return verify_webhook(body, headers, secret, clock=lambda: now, **options)


def test_a_good_delivery_becomes_a_typed_event():
    event = verify(signed())
    assert (event.event, event.job_id, event.repo) == ("job.completed", "job_1", "acme/shop")
    assert event.pr_url == PAYLOAD["pr_url"]
    assert event.timestamp == datetime.fromtimestamp(NOW, UTC)
    assert (event.event_id, event.delivery_id, event.sequence) == ("evt_1", "dlv_1", 3)


def test_deliveries_of_the_service_verify():
    secrets = Secrets(new_secret(), new_secret())
    delivery = ClaimedDelivery(
        id="dlv_1",
        fence=1,
        organization_id="org_1",
        endpoint_id="whk_1",
        url="https://receiver.example.com/",
        secrets=SealedSecrets(b""),
        event_id="evt_1",
        event="job.completed",
        job_id="job_1",
        sequence=3,
        body=BODY,
    )
    headers = signed_headers(delivery, secrets, NOW * 1000)
    for secret in (secrets.main, secrets.next):
        event = verify(headers, secret)
        assert (event.event_id, event.delivery_id, event.sequence) == ("evt_1", "dlv_1", 3)


def test_the_published_vector_verifies():
    secret, body = "It's a Secret to Everybody", b"Hello, World!"
    signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"X-Service-Signature-256": f"sha256={signature}"}
    with pytest.raises(UnknownPayload):
        verify(headers, secret, body, tolerance_seconds=None)


@pytest.mark.parametrize("form", [str.lower, str.upper, str.title])
def test_header_names_are_found_in_any_case(form):
    assert verify({form(name): value for name, value in signed().items()}).sequence == 3


def test_headers_may_be_bytes_as_asgi_has_them():
    headers = {name.lower().encode(): value.encode() for name, value in signed().items()}
    assert verify(headers).event_id == "evt_1"
    assert verify({**signed(), "X-Service-Signature-256": body_signature(OLD).encode()})
    with pytest.raises(InvalidSignature):
        verify({**signed(), "X-Service-Signature-256": b"sha256=\xff"})


@pytest.mark.parametrize("value", [None, [body_signature(OLD)], (), 7, {}, bytearray(b"sha256=")])
@pytest.mark.parametrize(
    "name", ["X-Service-Signature-256", "webhook-id", "webhook-timestamp", "webhook-signature"]
)
def test_a_header_that_is_not_text_counts_as_absent(name, value):
    with pytest.raises(InvalidSignature, match=f"{name} is missing"):
        verify({**signed(), name: value})
    assert verify({**signed(), "X-Other": value, "X-Service-Sequence": value}).sequence is None


def test_an_event_before_its_pull_request_has_none():
    body = json.dumps({**PAYLOAD, "event": "job.queued", "pr_url": None}).encode()
    assert verify(signed(body=body), body=body).pr_url is None


def test_fields_that_a_newer_service_adds_are_ignored():
    body = json.dumps({**PAYLOAD, "colour": "red", "delivery_id": "dlv_of_the_body"}).encode()
    assert verify(signed(body=body), body=body).delivery_id == "dlv_1"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(signed(NEW), id="another secret"),
        pytest.param(signed(body=BODY + b" "), id="another body"),
        pytest.param(signed(X_Service_Signature_256=""), id="empty"),
        pytest.param(signed(X_Service_Signature_256="sha256="), id="empty digest"),
        pytest.param(signed(X_Service_Signature_256=body_signature(OLD)[7:]), id="no prefix"),
        pytest.param(
            signed(X_Service_Signature_256=body_signature(OLD).replace("256=", "1=")), id="sha1"
        ),
        pytest.param(signed(X_Service_Signature_256=body_signature(OLD)[:-1]), id="cut"),
        pytest.param(signed(X_Service_Signature_256="sha256=ü\udcff"), id="not ASCII"),
        pytest.param(without(signed(), "X-Service-Signature-256"), id="missing"),
        pytest.param({}, id="no headers"),
        pytest.param(without(signed(), "webhook-id"), id="no id"),
        pytest.param(without(signed(), "webhook-timestamp"), id="no time"),
        pytest.param(without(signed(), "webhook-signature"), id="no timed signature"),
        pytest.param(signed(webhook_signature=""), id="empty timed signature"),
        pytest.param(signed(webhook_signature=timestamped_signature(NEW)), id="timed by another"),
        pytest.param(
            signed(webhook_signature=timestamped_signature(OLD).replace("v1,", "v2,")), id="version"
        ),
        pytest.param(signed(webhook_id="evt_2"), id="another id"),
        pytest.param(signed(webhook_timestamp=str(NOW + 1)), id="another time"),
        pytest.param(signed(webhook_timestamp="\ud800"), id="not a time"),
    ],
)
def test_modified_deliveries_are_refused(headers):
    with pytest.raises(InvalidSignature):
        verify(headers)


def test_invalid_signatures_share_the_clients_base_class():
    with pytest.raises(ClientError, match="X-Service-Signature-256 is missing"):
        verify({})


def test_a_signed_timestamp_that_is_not_a_number_is_refused():
    content = b"evt_1.soon." + BODY
    digest = hmac.new(b"o" * 32, content, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    with pytest.raises(InvalidSignature, match="not a number"):
        verify(signed(webhook_timestamp="soon", webhook_signature=signature))


@pytest.mark.parametrize("now", [NOW - 300, NOW + 300])
def test_a_clock_may_be_wrong_by_the_tolerance(now):
    assert verify(signed(), now=now).event_id == "evt_1"


@pytest.mark.parametrize(("now", "message"), [(NOW - 301, "301 s ahead"), (NOW + 301, "301 s old")])
def test_a_replayed_delivery_is_refused(now, message):
    with pytest.raises(InvalidSignature, match=message):
        verify(signed(), now=now)


def test_removing_the_timestamp_does_not_allow_a_replay():
    bare = without(signed(), "webhook-id", "webhook-timestamp", "webhook-signature")
    with pytest.raises(InvalidSignature, match="webhook-id is missing"):
        verify(bare, now=NOW + 86_400)


def test_without_a_tolerance_only_the_body_is_verified():
    headers = {"X-Service-Signature-256": body_signature(OLD)}
    event = verify(headers, tolerance_seconds=None, now=NOW + 86_400)
    assert (event.job_id, event.event_id, event.sequence) == ("job_1", None, None)


@pytest.mark.parametrize("secret", [OLD, NEW, [OLD, NEW], (NEW, OLD)])
def test_during_a_rotation_old_and_new_receivers_both_verify(secret):
    headers = signed(
        X_Service_Signature_256_Next=body_signature(NEW),
        webhook_signature=f"{timestamped_signature(OLD)} {timestamped_signature(NEW)}",
    )
    assert verify(headers, secret).event_id == "evt_1"


@pytest.mark.parametrize("signed_with", [OLD, NEW])
def test_a_receiver_with_both_secrets_verifies_before_and_after_the_promotion(signed_with):
    assert verify(signed(signed_with), [OLD, NEW]).event_id == "evt_1"


def test_a_secret_may_end_with_the_newline_of_its_file():
    assert verify(signed(), OLD + "\n").event_id == "evt_1"


@pytest.mark.parametrize("secret", ["", "\n", [], [OLD, ""]])
def test_an_empty_secret_raises_value_error(secret):
    with pytest.raises(ValueError, match="it is empty"):
        verify(signed(), secret)


def test_a_sequence_that_is_not_a_number_is_ignored():
    assert verify(signed(X_Service_Sequence="third")).sequence is None


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"", b"not JSON", b'{"event": 1}', b'{"a":' * 5_000]
)
def test_a_signed_body_that_is_not_an_event_is_not_reported_as_a_forgery(body):
    with pytest.raises(UnknownPayload, match="The signature is valid"):
        verify(signed(body=body), body=body)
