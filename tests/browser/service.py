"""The service under test in the browser suite: its agents and its repository.

Knows nothing of browsers.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.browser.history import write_history
from tests.support.openid_provider import ADA, CLIENT, Provider, openid_provider
from tests.support.paths import DATA
from tests.support.service import Api, Service, git, sample_repository, wait_until

REPO = "acme/shop"
# An advisory for requests in the recorded data.
ADVISORY = "GHSA-j8r2-6x86-q33q"
GRACE = "grace@example.com"
PASSWORD = "a long password of the tests"
# The second attempt is the last, so that a failing receiver shows quickly.
SETTINGS = r'''
webhook_retry_seconds = [0.1]

[[plans]]
name = "free"
concurrent_jobs = 4

[[plans]]
name = "enterprise"
concurrent_jobs = 50

[[agents]]
id = "price-fixer"
name = "Price fixer"
command = ["sh", "-c", """
printf '\\033[36mreading\\033[0m shop/prices.py\\n'
printf 'found \\033[1;31m1 fault\\033[0m: prices are cut, not rounded\\n'
sed -i 's/int(total)/round(total, 2)/' shop/prices.py
printf '# Changes\\n\\n- Prices are rounded, not cut.\\n' > CHANGES.md
printf '\\033[32mfixed\\033[0m, all tests pass\\n'
printf 'Round prices instead of cutting them\\n\\nA total of 9.99 became 9.' > "$AGENTJOBS_REPORT"
"""]

[[agents]]
id = "waiting"
name = "Waiting"
command = ["sh", "-c", """
printf '\\033[32mgreen\\033[0m line of the beginning\\n'
touch waiting
until [ -e go ]; do sleep 0.05; done
rm go waiting
printf '\\033[31mred\\033[0m line of the end\\n'
echo 'rounded = True' >> shop/prices.py
"""]

[[agents]]
id = "note-taker"
name = "Note taker"
command = ["sh", "-c", """
echo 'taking a note'
echo "- noted in $(date +%s%N)" >> NOTES.md
printf 'Take a note\\n\\nPlease read it.' > "$AGENTJOBS_REPORT"
"""]

[[agents]]
id = "talker"
name = "Talker"
command = ["sh", "-c", """
for number in $(seq 1 60); do echo "line $number"; done
printf '\\033[33mneedle\\033[0m one\\n'
for number in $(seq 61 120); do echo "line $number"; done
echo 'Needle two'
exec sleep infinity
"""]

[[agents]]
id = "crash"
name = "Crash"
command = ["sh", "-c", "echo these are my last words; exit 3"]

[[agents]]
id = "premium"
name = "Premium"
plan_required = "enterprise"
command = ["true"]
'''
FILES = {
    "shop/prices.py": '''"""What things cost."""


def total_of(items: list[dict[str, float]]) -> float:
    """The sum, as it is printed on the bill."""
    total = sum(item["price"] * item["count"] for item in items)
    return int(total)
''',
    "shop/__init__.py": "",
    "shop/cart.py": "import requests\n\nfrom shop.prices import total_of\n",
    "shop/bill.py": "import yaml\n\nfrom shop import cart, prices\n",
    "README.md": "# Shop\n\nSells things.\n",
    "requirements.txt": "requests==2.30.0\nPyYAML==5.3\nflask>=2\n",
    "web/package.json": '{"name": "web", "dependencies": {"mkdirp": "0.5.1"}}\n',
    "web/package-lock.json": """{"name": "web", "lockfileVersion": 3, "packages": {
  "": {"name": "web", "dependencies": {"mkdirp": "0.5.1"}},
  "node_modules/mkdirp": {"version": "0.5.1", "dependencies": {"minimist": "0.0.8"}},
  "node_modules/minimist": {"version": "0.0.8"}}}
""",
}
_RECORDS = DATA / "advisory_records"
# No registry is used: the advisory records suffice.
_UNREACHABLE_URL = "https://127.0.0.1:9"
_ADVISORIES = {
    "AGENTJOBS_ADVISORIES_SOURCE": str(_RECORDS),
    "AGENTJOBS_REGISTRY_PYPI_URL": _UNREACHABLE_URL,
    "AGENTJOBS_REGISTRY_NPM_URL": _UNREACHABLE_URL,
}
# Loopback is not allowed by itself, because everyone at the provider may sign in.
_LOCAL_RECEIVERS = {"AGENTJOBS_WEBHOOKS_ALLOW": "127.0.0.0/8"}


@dataclass
class BrowserTestService:
    service: Service
    api: Api
    provider: Provider
    sign_in_link: str
    # For Grace, as an administrator.
    invitation: str

    @property
    def url(self) -> str:
        return self.service.root_url

    def release_waiting_agent(self) -> None:
        """The working tree is the only part of the agent's sandbox that a test can change."""
        trees = self.service.data_dir / "workspaces" / "sessions"
        markers = wait_until(lambda: list(trees.glob("*/*/tree/waiting")), "a waiting agent")
        for marker in markers:
            marker.with_name("go").touch()

    def is_settled(self) -> bool:
        """Whether all pushed commits are indexed and scanned."""
        database = self.service.data_dir / "agentjobs.db"
        with closing(sqlite3.connect(database)) as connection:
            waiting = (
                "SELECT (SELECT COUNT(*) FROM scan_queue WHERE due_at > 0)"
                " + (SELECT COUNT(*) FROM index_queue WHERE due_at > 0)"
            )
            (count,) = connection.execute(waiting).fetchone()
        return count == 0

    def findings(self) -> list[str]:
        """The identifiers of the findings so far."""
        database = self.service.data_dir / "agentjobs.db"
        with closing(sqlite3.connect(database)) as connection:
            return [row[0] for row in connection.execute("SELECT id FROM findings ORDER BY id")]

    def git(self, *arguments: str) -> str:
        """Run git in the service's repository."""
        (repository,) = (self.service.data_dir / "git").glob("repo_*.git")
        return git(repository, *arguments).strip()

    def errors(self) -> str:
        """Errors in the service's log."""
        lines = self.service.log().splitlines()
        return "\n".join(line for line in lines if '"level":"error"' in line)

    def commit_subjects(self) -> str:
        """The commit subjects of the default branch, newest first."""
        return self.git("log", "--format=%s", "main")


@contextmanager
def run_browser_service(directory: Path) -> Iterator[BrowserTestService]:
    with openid_provider() as provider:
        data_dir = directory / "data"
        data_dir.mkdir()
        (data_dir / "agentjobs.toml").write_text(SETTINGS)
        settings = {**_openid_settings(provider), **_ADVISORIES, **_LOCAL_RECEIVERS}
        service = Service(data_dir, settings).start()
        try:
            yield _add_sample_data(service, provider, directory)
        finally:
            assert service.stop() == 0, service.log()


def _openid_settings(provider: Provider) -> Mapping[str, Any]:
    return {
        "AGENTJOBS_OIDC_ISSUER": provider.issuer,
        "AGENTJOBS_OIDC_CLIENT_ID": CLIENT["client_id"],
        "AGENTJOBS_OIDC_CLIENT_SECRET": CLIENT["client_secret"],
        "AGENTJOBS_OIDC_NAME": "Example Id",
        "AGENTJOBS_OIDC_JOIN_ROLE": "viewer",
        "AGENTJOBS_OIDC_EMAIL_DOMAINS": ADA["email"].partition("@")[2],
    }


def _add_sample_data(service: Service, provider: Provider, directory: Path) -> BrowserTestService:
    assert service.process is not None
    assert service.process.stdout is not None
    link = Path(service.process.stdout.readline().strip()).read_text().strip()
    service.connect(sample_repository(directory / "shop", FILES), REPO)
    write_history(service.data_dir / "agentjobs.db")
    # The command line does not know the service's port.
    invitation = service.admin("users", "invite", GRACE, "--role", "admin").strip()
    invitation = service.root_url + invitation[invitation.index("/invitation") :]
    api = service.client(service.key("--name", "CI"))
    api.wait_ready(REPO)
    return BrowserTestService(service, api, provider, link, invitation)
