"""A push to a `local` repository with few and with many branches, each with an open pull request.

One `agentjobs serve` on SQLite has three repositories of the same content. In each round, one
commit is pushed to each of them with a job's credential, as a worker does, and with an API key. A
person's git client is told all branches, so only a job's push is expected to be flat.
"""

import sqlite3
import statistics
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from agentjobs.organizations.tokens import JOB_CREDENTIAL_PREFIX, new_token, token_hash
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from bench.report import verdict
from tests.support.service import Service, git, sample_repository

BRANCHES = (100, 5_000, 20_000)
ROUNDS = 30
WARM_UP_ROUNDS = 3
GOAL_RATIO = 1.2
_LEASE_MS = 3_600_000


def measure() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="agentjobs-bench-") as directory:
        root = Path(directory)
        service = Service(root / "data", command=("serve",)).start()
        try:
            return _measure(service, root)
        finally:
            service.stop()


def _measure(service: Service, root: Path) -> list[dict[str, Any]]:
    key = service.key("--git-write")
    source = sample_repository(root / "source")
    for count in BRANCHES:
        service.connect(source, f"acme/with-{count}")
        service.client(key).wait_ready(f"acme/with-{count}")
        _add_branches(service.data_dir, count)
    times: dict[tuple[int, str], list[float]] = {}
    for number in range(WARM_UP_ROUNDS + ROUNDS):
        git(source, "-c", "user.name=b", "-c", "user.email=b@example.com", "commit",
            "-q", "--allow-empty", "-m", f"round {number}")  # fmt: skip
        for count in BRANCHES:
            for who in ("job", "key"):
                branch = f"agentjobs/bench/{who}-{number}"
                token = key if who == "key" else _claim_job(service.data_dir, count, branch)
                seconds = _push(service, source, count, branch, token)
                if number >= WARM_UP_ROUNDS:
                    times.setdefault((count, who), []).append(seconds)
    p50 = {subject: statistics.median(taken) for subject, taken in times.items()}
    return [_row(count, p50) for count in BRANCHES]


def _row(count: int, p50: dict[tuple[int, str], float]) -> dict[str, Any]:
    ratio = p50[count, "job"] / p50[BRANCHES[0], "job"]
    return {
        "branches": count,
        "job p50 ms": round(p50[count, "job"] * 1_000, 1),
        f"times {BRANCHES[0]}": round(ratio, 2),
        "goal": verdict(met=ratio <= GOAL_RATIO),
        "key p50 ms": round(p50[count, "key"] * 1_000, 1),
    }


def _push(service: Service, source: Path, count: int, branch: str, token: str) -> float:
    address = service.root_url.replace("http://", f"http://job:{token}@")
    url = f"{address}/git/default/acme/with-{count}.git"
    began = time.perf_counter()
    git(source, "push", "--quiet", url, f"HEAD:refs/heads/{branch}")
    return time.perf_counter() - began


def _add_branches(data_dir: Path, count: int) -> None:
    """Branches with a commit each, and an open pull request for each of them."""
    with closing(sqlite3.connect(data_dir / "agentjobs.db", timeout=30)) as db, db:
        (repo_id,) = db.execute(
            "SELECT id FROM repos WHERE full_name = ?", [f"acme/with-{count}"]
        ).fetchone()
        names = [f"agentjobs/fixer/{number:012d}" for number in range(count)]
        db.executemany(
            "INSERT INTO pulls (repo_id, number, title, body, head_branch, base_branch,"
            " head_commit, base_commit, state, draft, created_at)"
            " VALUES (?, ?, 'Fix', '', ?, 'main', 'x', 'x', 'open', FALSE, ?)",
            [(repo_id, number + 1, name, number) for number, name in enumerate(names)],
        )
    git_dir = data_dir / "git" / f"{repo_id}.git"
    commits = "".join(
        f"commit refs/heads/{name}\ncommitter b <b@example.com> {1_700_000_000 + number} +0000\n"
        "data 3\nFix\nfrom refs/heads/main^0\n\n"
        for number, name in enumerate(names)
    )
    subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=git_dir, input=commits.encode(), check=True
    )
    git(git_dir, "pack-refs", "--all")


def _claim_job(data_dir: Path, count: int, branch: str) -> str:
    """The credential of a claimed job on the branch."""
    credential, now = new_token(JOB_CREDENTIAL_PREFIX), now_ms()
    with closing(sqlite3.connect(data_dir / "agentjobs.db", timeout=30)) as db, db:
        job_id, repo = new_id("job"), f"acme/with-{count}"
        db.execute(
            "INSERT INTO jobs (id, organization_id, repo_id, repo, agent, config_override, status,"
            " created_at, queued_at, branch, base_commit) SELECT ?, organization_id, id, full_name,"
            " 'fixer', '{}', 'running', ?, ?, ?, head_commit FROM repos WHERE full_name = ?",
            [job_id, now, now, branch, repo],
        )
        db.execute(
            "INSERT INTO job_queue (job_id, organization_id, repo_id, agent, queue_order,"
            " lease_owner, lease_expires_at, credential_hash) SELECT ?, organization_id, id,"
            " 'fixer', ?, 'wrk_bench', ?, ? FROM repos WHERE full_name = ?",
            [job_id, now, now + _LEASE_MS, token_hash(credential), repo],
        )
    return credential
