"""Checks of `agentjobs doctor` on the workers and on queued jobs that none of them can start."""

from collections.abc import Sequence

from agentjobs.cli.doctor.finding import Finding, count, describe_age
from agentjobs.jobs.operations.workers import WorkerView, list_worker_views
from agentjobs.jobs.queue.platform_outages import waiting_by_outage
from agentjobs.jobs.views.stuck_jobs import is_disk_full, waiting_jobs
from agentjobs.store.database import Database
from agentjobs_runtime.protocol.claimed_job import LOCAL, REFUSED
from agentjobs_runtime.settings import Settings


async def check_workers(settings: Settings, db: Database) -> list[Finding]:
    workers = await list_worker_views(db, settings)
    return [
        *describe_workers(workers),
        *await _check_queue(settings, db, workers),
        *await _check_outages(db),
    ]


def describe_workers(workers: Sequence[WorkerView]) -> list[Finding]:
    if not workers:
        reason = "none is running; start `agentjobs up` or `agentjobs worker`"
        return [Finding("workers", "note", reason)]
    alive_hosts = {worker.hostname for worker in workers if worker.status != "silent"}
    findings = []
    for worker in workers:
        if worker.status == "silent":
            findings.append(_describe_silent(worker, is_replaced=worker.hostname in alive_hosts))
        else:
            findings += _describe_alive(worker)
    return findings


def _describe_silent(worker: WorkerView, *, is_replaced: bool) -> Finding:
    age = describe_age(worker.heartbeat_age_ms)
    text = f"{_name(worker)} is dead or cut off: no heartbeat for {age}"
    remove = f"`agentjobs workers remove {worker.id}`"
    if is_replaced:
        return Finding("workers", "note", f"{text}; another one runs on this host, so run {remove}")
    remedy = f"check its process and its connection to the database, or run {remove} if it is gone"
    return Finding("workers", "problem", f"{text}; {remedy}")


def _describe_alive(worker: WorkerView) -> list[Finding]:
    jobs = f"{count(worker.running_jobs, 'job')} in {count(worker.slots, 'slot')}"
    age = describe_age(worker.heartbeat_age_ms)
    text = f"{_name(worker)} is {worker.status}, {jobs}, last heartbeat {age} ago"
    if worker.status == "ready":
        findings = [Finding("workers", "ok", text)]
    elif worker.status == "unready":
        reason = f"it starts no job, because {worker.sandbox_problem}"
        findings = [Finding("workers", "problem", f"{text}; {reason}")]
    else:
        undo = f"`agentjobs workers drain {worker.id} --undo` lets it claim jobs again"
        findings = [Finding("workers", "note", f"{text}; {undo}")]
    if (ahead := worker.clock_ahead_seconds) is not None:
        findings.append(Finding("clock", "problem", _describe_clock(worker, ahead)))
    if is_disk_full(worker):
        reason = f"the disk of {worker.hostname} is nearly full, so that it starts no job"
        remedy = "free some space there, or lower cache_max_bytes"
        return [*findings, Finding("disk", "problem", f"{reason}: {remedy}")]
    return findings + [
        Finding("workers", "note", f"{worker.hostname} cannot run {agent}: {reason}")
        for agent, reason in worker.unready.items()
        if reason != worker.sandbox_problem
    ]


def _describe_clock(worker: WorkerView, ahead_seconds: int) -> str:
    direction = "ahead of" if ahead_seconds > 0 else "behind"
    age = describe_age(abs(ahead_seconds) * 1_000)
    return f"the clock of {worker.hostname} is {age} {direction} the database's: set both by NTP"


async def _check_queue(
    settings: Settings, db: Database, workers: Sequence[WorkerView]
) -> list[Finding]:
    waiting = await waiting_jobs(db, settings, workers)
    now = await db.clock_ms()
    findings = [
        Finding(
            "queue",
            "problem",
            f"{count(group.jobs, 'job')} of {group.agent} cannot start after"
            f" {describe_age(now - group.oldest_at)} in the queue: {group.reason}",
        )
        for group in waiting
        if group.reason is not None
    ]
    if findings:
        return findings
    number = sum(group.jobs for group in waiting)
    text = f"{count(number, 'job')} waiting for a free slot" if number else "no job is waiting"
    return [Finding("queue", "ok", text)]


async def _check_outages(db: Database) -> list[Finding]:
    findings = []
    for key, jobs in (await waiting_by_outage(db)).items():
        wait = "waits" if jobs == 1 else "wait"
        if key == LOCAL:
            cause = (
                "the git server at the public URL: check that workers reach that URL, and see the"
                " lines processes and address"
            )
        elif key.startswith(REFUSED):
            cause = "a platform that refuses finished work: the warnings of the jobs say why"
        else:
            cause = (
                "a platform or tracker that did not respond: see the lines platforms and trackers"
            )
        findings.append(Finding("queue", "problem", f"{count(jobs, 'job')} {wait} for {cause}"))
    return findings


def _name(worker: WorkerView) -> str:
    return f"{worker.hostname} ({worker.id})"
