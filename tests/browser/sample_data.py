"""Sample data for every page."""

from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec

from tests.browser.environments import write_environment
from tests.browser.phases import write_phases
from tests.browser.platforms import write_platform
from tests.browser.service import ADVISORY, REPO, BrowserTestService
from tests.browser.steps import write_steps
from tests.support.receiver import Receiver
from tests.support.service import wait_until

PATH = "shop/prices.py"
TICKET = "SHOP-12"
_TRIES = 2
# Of requests, PyYAML and minimist.
_FINDINGS = 3


@dataclass(frozen=True)
class SampleData:
    """IDs of the sample data."""

    completed: str
    failed: str
    running: str
    pull: str
    endpoint: str
    delivery: str
    base: str
    head: str
    connection: str
    tracker: str
    key: str
    finding: str

    def address_of(self, path: str) -> str:
        """The URL of a dashboard route, with its placeholders filled in."""
        # Repository names have their own converter in routes.
        address = path.replace("{full_name:path}", REPO).format(
            job_id=self.completed,
            id=self._id_in(path),
            org="default",
            number=self.pull,
            advisory_id=ADVISORY,
            name="default",
            finding_id=self.finding,
        )
        # A short list is enough.
        if path == "/jobs":
            address += f"?ticket={TICKET}"
        if path.endswith("/graph"):
            address += "?" + urlencode({"node": "shop/cart.py"})
        if path.endswith("/file"):
            address += "?" + urlencode({"path": PATH, "base": self.base, "head": self.head})
        return address

    def _id_in(self, path: str) -> str:
        ids = {
            "/settings/webhooks/delivery-log/": self.delivery,
            "/settings/webhooks/": self.endpoint,
            "/settings/api-keys/": self.key,
            "/settings/platforms/": self.connection,
            "/settings/trackers/": self.tracker,
        }
        return next((identifier for begin, identifier in ids.items() if path.startswith(begin)), "")


def create_samples(service: BrowserTestService, webhook_receiver: Receiver) -> SampleData:
    admin, api = service.service.admin, service.api
    added = msgspec.json.decode(admin("webhooks", "add", webhook_receiver.url, "--json"))
    running = api.create(REPO, "talker", config_override={"title": "Talk about the shop"})
    failed = api.create(REPO, "crash", config_override={"title": "Find out why it crashes"})
    completed = api.create(
        REPO, "price-fixer", ticket_id=TICKET, config_override={"prompt": "Round the prices"}
    )
    pull = api.wait_status(completed, "completed")
    api.wait_status(failed, "failed")
    api.wait_status(running, "running")
    wait_until(
        lambda: webhook_receiver.events_of(failed).count("job.failed") == _TRIES, "the last try"
    )
    wait_until(lambda: len(service.findings()) >= _FINDINGS, "vulnerable packages")
    connection, tracker = write_platform(service.service.data_dir)
    write_environment(service.service.data_dir)
    write_steps(service.service.data_dir, completed)
    write_phases(service.service.data_dir, completed, failed)
    branches = service.git("for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()
    (branch,) = (name for name in branches if "price-fixer" in name)
    return SampleData(
        completed=completed,
        failed=failed,
        running=running,
        pull=str(pull["pr_number"]),
        endpoint=added["id"],
        delivery=wait_until(lambda: _failed_delivery(service, failed), "a failed delivery"),
        base=service.git("merge-base", "main", branch),
        head=service.git("rev-parse", branch),
        connection=connection,
        tracker=tracker,
        key=msgspec.json.decode(admin("keys", "list", "--json"))["keys"][0]["id"],
        finding=service.findings()[0],
    )


def _failed_delivery(service: BrowserTestService, job_id: str) -> str:
    listed = service.service.admin(
        "webhooks", "deliveries", "--job", job_id, "--status", "failed", "--json"
    )
    deliveries = msgspec.json.decode(listed)
    return str(deliveries[0]["id"]) if deliveries else ""
