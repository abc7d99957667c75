"""Every page of the dashboard for an organization with 100,000 jobs, on a real service and both
stores: from the first byte of the request to the last byte of the response, on the loopback.

Pages and stores alternate. CPU time is that of the serving process, without git and PostgreSQL.
"""

import asyncio
import contextlib
import http.client
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentjobs.local_git.repositories import path as git_path
from agentjobs.organizations.sessions import Origin, start_session
from agentjobs.store.opening import open_database
from agentjobs_runtime.clock import DAY_MS, iso_utc, now_ms
from agentjobs_runtime.settings import load
from bench.cluster import durable_cluster
from bench.dashboard_history import (
    AGENTS,
    JOBS,
    ORGANIZATION,
    PULLS,
    REPO,
    REPO_ID,
    History,
    load_history,
)
from bench.report import verdict
from bench.server import Serving, running
from tests.support.git_commands import commit_files, git_output

ROUNDS = 60
CLIENTS = 4
GOAL_P95_MS = 50.0
_ENVIRONMENT = {"AGENTJOBS_SEND_WEBHOOKS": "false", "AGENTJOBS_RATE_LIMIT_PER_SECOND": "0"}
_FILES, _FUNCTIONS = 10, 50

Pages = Mapping[str, str]


@dataclass
class Times:
    """In milliseconds; `first` is the first request after the start of the service."""

    first: float = 0.0
    kilobytes: int = 0
    alone: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    concurrent: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Target:
    """A service and a signed-in browser."""

    store: str
    serving: Serving
    token: str
    pages: Pages

    def client(self) -> "Client":
        return Client(self.serving.port, f"agentjobs-session-{self.serving.port}={self.token}")


class Client:
    def __init__(self, port: int, cookie: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._headers = {"Cookie": cookie, "Accept": "text/html"}

    def look(self, page: str) -> tuple[float, int]:
        """Milliseconds and bytes."""
        began = time.perf_counter()
        self._connection.request("GET", page, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        spent = time.perf_counter() - began
        if answer.status != 200:
            raise RuntimeError(f"{page}: {answer.status} {body[:2_000]!r}")
        return spent * 1e3, len(body)

    def close(self) -> None:
        self._connection.close()


def measure() -> list[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(durable_cluster())
        urls = {"sqlite": "", "postgresql": cluster.url(cluster.create_database())}
        until_ms = now_ms()
        targets = [stack.enter_context(_place(store, url, until_ms)) for store, url in urls.items()]
        found = {target.store: load_all_pages(target) for target in targets}
        _alternate(targets, found)
    return [
        _figure(name, store, times)
        for store, pages in found.items()
        for name, times in pages.items()
    ]


def load_all_pages(target: Target) -> dict[str, Times]:
    """Every page once, before templates are compiled and caches are filled."""
    client = target.client()
    found = {}
    for name, page in target.pages.items():
        spent, size = client.look(page)
        found[name] = Times(first=spent, kilobytes=size // 1_024)
    client.close()
    return found


def _alternate(targets: Sequence[Target], found: Mapping[str, Mapping[str, Times]]) -> None:
    clients = {target.store: target.client() for target in targets}
    for _ in range(ROUNDS):
        for name in targets[0].pages:
            for target in targets:
                measure_alone(target, clients[target.store], name, found[target.store][name])
    for target in targets:
        clients[target.store].close()
        _measure_concurrently(target, found[target.store])


def measure_alone(target: Target, client: Client, name: str, times: Times) -> None:
    before = _processor_ms(target.serving.process_id)
    times.alone.append(client.look(target.pages[name])[0])
    times.processor.append(_processor_ms(target.serving.process_id) - before)


def _measure_concurrently(target: Target, found: Mapping[str, Times]) -> None:
    """Each client starts at another page and sends the next request after each response."""
    names = list(target.pages)

    def look(number: int) -> list[tuple[str, float]]:
        client = target.client()
        start = number * len(names) // CLIENTS
        order = [*names[start:], *names[:start]] * (ROUNDS // CLIENTS)
        took = [(name, client.look(target.pages[name])[0]) for name in order]
        client.close()
        return took

    with ThreadPoolExecutor(CLIENTS) as pool:
        for took in pool.map(look, range(CLIENTS)):
            for name, spent in took:
                found[name].concurrent.append(spent)


def _figure(name: str, store: str, times: Times) -> dict[str, Any]:
    p95 = _p95(times.alone)
    return {
        "store": store,
        "page": name,
        "KB": times.kilobytes,
        "first ms": times.first,
        "least ms": min(times.alone),
        "p50 ms": statistics.median(times.alone),
        "p95 ms": p95,
        "CPU ms": statistics.median(times.processor),
        f"p50 ms, {CLIENTS} clients": statistics.median(times.concurrent),
        f"p95 ms, {CLIENTS} clients": _p95(times.concurrent),
        "goal": GOAL_P95_MS,
        "verdict": verdict(met=p95 <= GOAL_P95_MS),
    }


def _p95(took: Sequence[float]) -> float:
    return statistics.quantiles(took, n=20)[-1]


def _processor_ms(process_id: int) -> float:
    """CPU time of all its threads so far."""
    tasks = Path(f"/proc/{process_id}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e6


def pages_of(history: History) -> Pages:
    jobs, log = "/jobs", "/settings/webhooks/delivery-log"
    day = iso_utc(history.until_ms - 15 * DAY_MS)[:10]
    job = f"/jobs/{history.logged_job}"
    repo = f"/{ORGANIZATION}/{REPO}"
    return {
        "overview, 24 hours": "/",
        "overview, 7 days": "/?span=7d",
        "overview, 30 days": "/?span=30d",
        "jobs": jobs,
        "jobs, second page": f"{jobs}?before={history.job_id(JOBS - 50)}",
        "jobs of a status": f"{jobs}?status=failed",
        "jobs of a repository": f"{jobs}?repo=acme/old",
        "jobs of an agent": f"{jobs}?agent={AGENTS[1]}",
        "jobs of a ticket": f"{jobs}?ticket=FIRST-1",
        "jobs of a day": f"{jobs}?since={day}&until={day}",
        "jobs of a status and repository": f"{jobs}?status=failed&repo={REPO}",
        "jobs of everything at once": f"{jobs}?status=completed&repo={REPO}&agent={AGENTS[2]}"
        f"&since={day}&q=work",
        "jobs, searched, many found": f"{jobs}?q=make+it",
        "jobs, searched, one found": f"{jobs}?q=number+{JOBS - 2_000}",
        "jobs, searched, none found": f"{jobs}?q=nowhere+to+be+found",
        "a job that runs": f"/jobs/{history.job_id(JOBS - 2)}",
        "a job with a log of 1 MB": job,
        "what it changed": f"{job}/changes",
        "new job": "/jobs/new",
        "repositories": "/repos",
        "a repository": f"/repos/{REPO}",
        "pull requests": "/pulls",
        "pull requests, open": "/pulls?state=open",
        "pull requests of a repository": f"{repo}/pulls",
        "a pull request": f"{repo}/pulls/{PULLS}",
        "a pull request of 1,000 lines": f"{repo}/pulls/{PULLS}/files",
        "agents": "/agents",
        "settings: API keys": "/settings/api-keys",
        "settings: webhooks": "/settings/webhooks",
        "settings: a webhook": f"/settings/webhooks/{history.endpoint_id(1)}",
        "settings: secrets": "/settings/secrets",
        "settings: budgets": "/settings/budgets",
        "settings: members": "/settings/members",
        "settings: organization": "/settings/organization",
        "delivery log": log,
        "delivery log, failed": f"{log}?status=failed",
        "delivery log of an endpoint": f"{log}?endpoint={history.endpoint_id(1)}&days=7",
        "delivery log of a job": f"{log}?job={history.logged_job}",
        "a delivery": f"{log}/{history.delivery_id(13 * 1_000)}",
        "audit log": "/settings/audit-log",
        "audit log of a person": "/settings/audit-log?actor=Somebody+1",
        "audit log of an action": "/settings/audit-log?action=webhook",
        "account": "/account",
    }


@contextlib.contextmanager
def _place(store: str, url: str, until_ms: int) -> Iterator[Target]:
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        history, token = asyncio.run(furnish(Path(directory), url, until_ms))
        environment = {**_ENVIRONMENT, "AGENTJOBS_DATABASE_URL": url}
        with running(Path(directory), environment) as serving:
            yield Target(store, serving, token, pages_of(history))


async def furnish(directory: Path, url: str, until_ms: int) -> tuple[History, str]:
    """A store and a repository; the token belongs to a session of an admin."""
    settings = load({"AGENTJOBS_DATABASE_URL": url}, data_dir=str(directory))
    base, head = await asyncio.to_thread(_make_repository, directory)
    history = History(until_ms, base, head)
    db = await open_database(settings.effective_database_url, migrate=True)
    try:
        await load_history(settings.effective_database_url, history)
        origin = Origin("127.0.0.1", "a measurement")
        return history, await start_session(db, settings, history.user_id(0), origin)
    finally:
        await db.close()


def _make_repository(directory: Path) -> tuple[str, str]:
    """Ten Python files, and a branch that replaces fifty lines in each."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        git_output("init", "--quiet", "--initial-branch=main", cwd=tree)
        base = commit_files(tree, _files("def price_{0}(number: int = {0}) -> int:"), "first")
        git_output("checkout", "--quiet", "-b", "agentjobs/change", cwd=tree)
        head = commit_files(
            tree, _files("def price_{0}(number: float = {0}.5) -> float:"), "change"
        )
        git_output("checkout", "--quiet", "main", cwd=tree)
        target = git_path(directory / "git", REPO_ID)
        target.parent.mkdir(parents=True, exist_ok=True)
        git_output("clone", "--quiet", "--bare", str(tree), str(target), cwd=tree)
    return base, head


def _files(signature: str) -> dict[str, str]:
    """Fifty functions per file, whose signatures change."""
    functions = [
        f'{signature.format(n)}\n    return number * {n}  # "{n}"' for n in range(_FUNCTIONS)
    ]
    return {f"src/prices_{each}.py": "\n\n".join(functions) + "\n" for each in range(_FILES)}
