"""A running service with short retry intervals, and its command line."""

import asyncio
import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from typing import Any

from tests.support.bad_receivers import Behaviour
from tests.support.bad_receivers import Receiver as BadReceiver
from tests.support.bad_receivers import receiver as bad_receiver
from tests.support.receiver import Received
from tests.support.service import Api, Service, sample_repository, wait_until

REPO = "acme/shop"
RETRY_SECONDS = (0.1, 0.2, 0.3)
QUICK = {"AGENTJOBS_WEBHOOK_RETRY_SECONDS": ",".join(map(str, RETRY_SECONDS))}
# Settings that several machines share so that each can send any delivery to this machine.
SHARED = {
    "AGENTJOBS_ENCRYPTION_KEY": base64.b64encode(b"a key of thirty-two bytes, as is").decode(),
    "AGENTJOBS_WEBHOOKS_ALLOW": "127.0.0.0/8",
}


@dataclass(frozen=True)
class Endpoint:
    id: str
    secret: str
    url: str


@dataclass(frozen=True)
class WebhookHarness:
    service: Service
    api: Api

    def add(self, url: str, *options: str) -> Endpoint:
        return add_endpoint(self.service, url, *options)

    def webhooks(self, *arguments: str) -> str:
        return self.service.admin("webhooks", *arguments)

    def deliveries(self, *options: str) -> list[dict[str, Any]]:
        """The oldest first."""
        return deliveries(self.service, *options)

    def settled(self, *options: str) -> list[dict[str, Any]]:
        return settled(self.service, *options)

    def check_healthy(self) -> None:
        assert self.api.http.get(f"{self.service.root_url}/readyz").status_code == 200
        assert "Traceback" not in self.service.log()


@contextmanager
def running(service: Service) -> Iterator[Service]:
    """Stop the service as an operator would, and kill it after a failure."""
    service.start()
    assert service.process is not None
    try:
        yield service
        assert service.stop() == 0, service.log()
    finally:
        if service.process.poll() is None:
            service.kill()


def open_harness(service: Service, directory: Path) -> WebhookHarness:
    service.connect(sample_repository(directory / "source"), REPO)
    api = service.client(service.key())
    api.wait_ready(REPO)
    return WebhookHarness(service, api)


def add_endpoint(service: Service, url: str, *options: str) -> Endpoint:
    added = json.loads(service.admin("webhooks", "add", url, "--json", *options))
    return Endpoint(added["id"], added["secret"], url)


def deliveries(service: Service, *options: str) -> list[dict[str, Any]]:
    listed = json.loads(service.admin("webhooks", "deliveries", "--json", *options))
    return list(reversed(listed))


def settled(service: Service, *options: str) -> list[dict[str, Any]]:
    """The deliveries, once there are some and none is pending."""

    def list_settled() -> list[dict[str, Any]] | None:
        listed = deliveries(service, *options)
        return (
            None
            if not listed or any(delivery["status"] == "pending" for delivery in listed)
            else listed
        )

    result: list[dict[str, Any]] = wait_until(list_settled, f"deliveries {options} to be settled")
    return result


def outcomes(delivery: Mapping[str, Any]) -> list[str | int]:
    """The error class of each attempt, or the status code of a successful attempt."""
    return [each["error_class"] or each["status_code"] for each in delivery["attempts"]]


def body_signature(secret: str, received: Received) -> str:
    digest = hmac.new(secret.encode(), received.body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"


@contextmanager
def bad_receivers(
    behaviours: Mapping[str, tuple[Behaviour, SSLContext | None]],
) -> Iterator[dict[str, BadReceiver]]:
    """Serve all of them on an event loop in a thread, by name."""
    served: dict[str, BadReceiver] = {}
    is_up = threading.Event()
    end: list[Callable[[], object]] = []

    async def serve() -> None:
        is_over = asyncio.Event()
        loop = asyncio.get_running_loop()
        end.append(lambda: loop.call_soon_threadsafe(is_over.set))
        async with AsyncExitStack() as stack:
            for name, (behaviour, tls) in behaviours.items():
                served[name] = await stack.enter_async_context(bad_receiver(behaviour, tls))
            is_up.set()
            await is_over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert is_up.wait(30)
    try:
        yield served
    finally:
        end[0]()
        thread.join()
