"""The demo's story, step by step. Every step is what a user would do by hand."""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from agentjobs.cli.demo import sample
from agentjobs.cli.demo.receiver import Receiver, running_receiver
from agentjobs.cli.demo.screen import Screen
from agentjobs.cli.demo.service import DemoFailed, DemoService, running_service
from agentjobs_client import AsyncClient, Job

AGENT = "lint-fixer"
_READY_SECONDS = 30.0
_DELIVERY_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 0.1


class _Pull(msgspec.Struct):
    title: str
    body: str
    diff: str


async def tell(place: Path, screen: Screen, *, stay_open: bool) -> None:
    stop = _stop_signal()
    screen.step("A repository with lint problems")
    await sample.make_repository(place / "shop")
    screen.plain(str(place / "shop"))

    screen.step("A service: agentjobs up")
    async with running_receiver() as receiver, running_service(place / "data") as service:
        screen.plain(service.base_url)
        told = asyncio.create_task(_with_service(service, receiver, place / "shop", screen))
        await _first_of(told, stop)
        if stop.done():
            return
        if stay_open:
            await _say_what_can_be_done(service, screen)
            await stop
            screen.step("Stopped; nothing of the demo is left behind")


async def _with_service(
    service: DemoService, receiver: Receiver, repository: Path, screen: Screen
) -> None:
    screen.step("A key: agentjobs keys create")
    key = await service.command("keys", "create", "--name=demo", "--git-write")
    screen.plain(key)

    screen.step(f"A connected repository: agentjobs repos connect {repository.name}")
    await service.command("repos", "connect", str(repository), f"--name={sample.FULL_NAME}")
    async with AsyncClient(service.base_url, key) as client:
        await _until_ready(client, screen)

        screen.step(f"A webhook: agentjobs webhooks add {receiver.url}")
        receiver.secret = await service.command("webhooks", "add", receiver.url)
        screen.plain(receiver.secret)

        screen.step("A job: POST /v1/jobs")
        screen.plain(f'{{"repo": "{sample.FULL_NAME}", "agent": "{AGENT}"}}')
        asked_at = time.monotonic()
        receipt = await client.create_job(sample.FULL_NAME, AGENT)
        job = await _watch(client, receipt.job_id, screen)
        seconds = time.monotonic() - asked_at

    if job.status != "completed" or job.pr_url is None:
        reason = f"{job.error.code}: {job.error.message}" if job.error else job.status
        raise DemoFailed(f"the job did not complete: {reason}")
    await _show_deliveries(receiver, screen)
    await _show_pull_request(service, job, seconds, screen)


async def _until_ready(client: AsyncClient, screen: Screen) -> None:
    screen.status(f"{sample.FULL_NAME} is being indexed")
    give_up_at = time.monotonic() + _READY_SECONDS
    while time.monotonic() < give_up_at:
        for repo in await client.repos():
            if repo.accepts_jobs:
                screen.plain(f"{repo.full_name} is ready: {repo.line_count} lines")
                return
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    raise DemoFailed(f"{sample.FULL_NAME} was not indexed within {_READY_SECONDS:g} s")


async def _watch(client: AsyncClient, job_id: str, screen: Screen) -> Job:
    """Its log and its states as they come; the job once it is finished."""
    log = asyncio.create_task(_show_log(client, job_id, screen))
    try:
        async for job in client.watch(job_id):
            if job.finished:
                # The last line of its log stands before the last word about it.
                await log
            screen.status(f"{job_id} is {job.status}")
    finally:
        log.cancel()
    return job


async def _show_log(client: AsyncClient, job_id: str, screen: Screen) -> None:
    unfinished = ""
    async for text in client.logs(job_id, follow=True):
        *lines, unfinished = (unfinished + text).split("\n")
        for line in lines:
            screen.log(line)
    if unfinished:
        screen.log(unfinished)


async def _show_deliveries(receiver: Receiver, screen: Screen) -> None:
    screen.step("What the webhook's receiver got")
    awaited = {"job.completed", "pr.review_requested"}
    try:
        async with asyncio.timeout(_DELIVERY_SECONDS):
            while awaited:
                event = await receiver.next_event()
                screen.plain(f"{event.event:<19}  {event.delivery_id}  signature good")
                awaited.discard(event.event)
    except TimeoutError:
        missing = " and ".join(sorted(awaited))
        reason = f"no webhook told of {missing} within {_DELIVERY_SECONDS:g} s"
        raise DemoFailed(reason) from None


async def _show_pull_request(
    service: DemoService, job: Job, seconds: float, screen: Screen
) -> None:
    number = str(job.pr_number)
    shown = await service.command("pulls", "show", sample.FULL_NAME, number, "--json")
    pull = msgspec.json.decode(shown, type=_Pull)
    screen.step(f"A pull request, {seconds:.1f} s after it was asked for")
    screen.text(f"{pull.title}\n\n{pull.body.strip()}\n")
    screen.diff(pull.diff.rstrip("\n"))
    screen.step("Its address")
    screen.plain(str(job.pr_url))


async def _say_what_can_be_done(service: DemoService, screen: Screen) -> None:
    screen.step("Open the dashboard (this link signs you in once, within 10 minutes)")
    screen.plain(await service.command("users", "sign-in-link", "admin@localhost"))
    screen.step("Merge it")
    where = f"--data-dir {service.data_dir}"
    screen.plain(f"{sys.argv[0]} pulls merge {sample.FULL_NAME} 1 {where}")
    screen.step("The service stays open until you press Ctrl-C")


def _stop_signal() -> "asyncio.Future[None]":
    """Done at Ctrl-C and at SIGTERM, so that nothing we started is left running."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def ask() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask)
    return stop


async def _first_of(told: asyncio.Task[None], stop: "asyncio.Future[None]") -> None:
    either: set[asyncio.Future[Any]] = {told, stop}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if told.done():
        await told
        return
    told.cancel()
    await asyncio.wait({told})
