"""What a delivery is signed with, and which secrets sign when."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from agentjobs.organizations.sealing import SealingKeys
from agentjobs.webhooks.model import ClaimedDelivery, SealedSecrets, Secrets
from agentjobs.webhooks.signing import (
    SecretOpener,
    body_signature,
    new_secret,
    seal_secret,
    signed_headers,
    signing_at,
)
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem

BODY = b'{"event":"job.queued","job_id":"job_1","repo":"acme/shop","pr_url":null}'


def delivery(body: bytes = BODY) -> ClaimedDelivery:
    return ClaimedDelivery(
        id="dlv_1",
        fence=1,
        organization_id="org_1",
        endpoint_id="whk_1",
        url="https://hooks.example.com/",
        secrets=SealedSecrets(b""),
        event_id="evt_1",
        event="job.queued",
        job_id="job_1",
        sequence=7,
        body=body,
    )


@pytest.fixture
def keys(tmp_path: Path) -> SealingKeys:
    return SealingKeys([base64.b64encode(b"k" * 32).decode()], tmp_path / "encryption.key")


def test_the_body_signature_matches_the_published_vector():
    expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert body_signature("It's a Secret to Everybody", b"Hello, World!") == expected


def test_the_timestamped_signature_matches_the_standard_webhooks_vector():
    # Of the specification's text: id, timestamp, body and secret are given there.
    known = ClaimedDelivery(
        id="dlv_1",
        fence=1,
        organization_id="org_1",
        endpoint_id="whk_1",
        url="https://hooks.example.com/",
        secrets=SealedSecrets(b""),
        event_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        event="ping",
        job_id="job_1",
        sequence=1,
        body=b'{"test": 2432232314}',
    )
    secrets = Secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed_headers(known, secrets, 1_614_265_330_999)
    assert headers["webhook-timestamp"] == "1614265330"
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_new_secret_is_the_base64_of_32_random_bytes():
    new_secrets = {new_secret() for _ in range(100)}
    assert len(new_secrets) == 100
    for secret in new_secrets:
        assert secret.startswith("whsec_")
        assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32


def test_headers_identify_the_delivery():
    headers = signed_headers(delivery(), Secrets(new_secret()), 1_700_000_000_123)
    signatures = {name: headers.pop(name) for name in list(headers) if "ignature" in name}
    assert headers == {
        "Content-Type": "application/json",
        "X-Service-Event": "job.queued",
        "X-Service-Delivery": "dlv_1",
        "X-Service-Sequence": "7",
        "webhook-id": "evt_1",
        "webhook-timestamp": "1700000000",
    }
    assert set(signatures) == {"X-Service-Signature-256", "webhook-signature"}


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=5))
def test_the_reference_verifier_accepts_our_signatures_and_rejects_changes(payload):
    secret, body = new_secret(), json.dumps(payload).encode()
    headers = signed_headers(delivery(body), Secrets(secret), now_ms())
    assert Webhook(secret).verify(body, headers) == payload
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(body, headers)


def test_during_a_rotation_both_secrets_verify_and_the_main_header_stays():
    old, new = new_secret(), new_secret()
    before = signed_headers(delivery(), Secrets(old), now_ms())
    during = signed_headers(delivery(), Secrets(old, new), now_ms())
    assert during["X-Service-Signature-256"] == before["X-Service-Signature-256"]
    assert during["X-Service-Signature-256"] == body_signature(old, BODY)
    assert during["X-Service-Signature-256-Next"] == body_signature(new, BODY)
    assert len(during["webhook-signature"].split(" ")) == 2
    for secret in (old, new):
        Webhook(secret).verify(BODY, during)


def test_a_pending_secret_takes_over_exactly_at_its_time():
    sealed = SealedSecrets(b"old", b"new", 1_000)
    assert signing_at(sealed, 999) == sealed
    assert signing_at(sealed, 1_000) == SealedSecrets(b"new")
    assert signing_at(SealedSecrets(b"old"), 5_000) == SealedSecrets(b"old")


def test_secrets_only_open_for_their_own_endpoint(keys):
    old, new = (seal_secret(keys, "org_1", "whk_1", text).data for text in ("old", "new"))
    box = SecretOpener(keys)
    sealed = SealedSecrets(old, new, 1_000)
    assert box.open("org_1", "whk_1", sealed, 999) == Secrets("old", "new")
    assert box.open("org_1", "whk_1", sealed, 1_000) == Secrets("new")
    for organization_id, endpoint_id in (("org_2", "whk_1"), ("org_1", "whk_2")):
        with pytest.raises(Problem, match=endpoint_id) as problem:
            box.open(organization_id, endpoint_id, sealed, 0)
        assert problem.value.code == "sealed_value_damaged"


def test_an_opened_secret_is_cached_and_a_failure_is_not(tmp_path):
    path = tmp_path / "encryption.key"
    sealed = SealedSecrets(seal_secret(SealingKeys([], path), "org_1", "whk_1", "text").data)
    aside = path.rename(tmp_path / "aside")
    box = SecretOpener(SealingKeys([], path))
    with pytest.raises(Problem, match="whk_1 cannot be decrypted"):
        box.open("org_1", "whk_1", sealed, 0)
    aside.rename(path)
    assert box.open("org_1", "whk_1", sealed, 0) == Secrets("text")
    path.unlink()
    assert box.open("org_1", "whk_1", sealed, 0) == Secrets("text")
