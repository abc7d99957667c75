"""The encryption key is replaced while a service runs."""

from pathlib import Path

import msgspec

from tests.support.receiver import receiver
from tests.support.service import Service
from tests.support.webhook_service import QUICK, REPO, body_signature, open_harness, running


def test_a_running_service_signs_webhooks_before_and_after_a_rotation(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", QUICK, ("up",))
    with running(service), receiver() as receiving:
        harness = open_harness(service, tmp_path)
        secret = harness.add(receiving.url, "--events", "job.queued").secret
        key_file = service.data_dir / "encryption.key"
        (old,) = key_file.read_text().split()

        rotated = msgspec.json.decode(service.admin("secrets", "rotate-key", "--json"))

        assert rotated["complete"]
        assert rotated["resealed"]["webhooks"] == 1
        assert old not in key_file.read_text()
        harness.api.create(REPO, "idle")
        (received,) = receiving.wait_for(1)
        signature = received.headers["X-Service-Signature-256"]
        assert signature == body_signature(secret, received)
