"""The steps of the demo. Each is what a user would do by hand."""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from agentjobs.cli.demo import sample, screen
from agentjobs.cli.demo.receiver import Receiver, running_receiver
from agentjobs.cli.demo.service import DemoFailed, DemoService, running_service
from agentjobs_client import AsyncClient, Job

AGENT = "lint-fixer"
_READY_SECONDS = 30.0
_DELIVERY_SECONDS = 30.0
_POLL_SECONDS = 0.1


class _Pull(msgspec.Struct):
    title: str
    body: str
    diff: str


async def run_demo(directory: Path, *, stay_open: bool) -> None:
    stop = _stop_signal()
    screen.step("Create a repository with lint problems")
    await sample.make_repository(directory / "shop")
    screen.plain(str(directory / "shop"))

    screen.step("Start the service: agentjobs up")
    async with running_receiver() as receiver, running_service(directory / "data") as service:
        screen.plain(service.base_url)
        steps = asyncio.create_task(_run_steps(service, receiver, directory / "shop"))
        await _run_until(steps, stop)
        if stop.done():
            return
        if stay_open:
            await _show_next_steps(service)
            await stop
            screen.step("Stopped. All files of the demo were deleted")


async def _run_steps(service: DemoService, receiver: Receiver, repository: Path) -> None:
    screen.step("Create an API key: agentjobs keys create")
    key = await service.command("keys", "create", "--name=demo", "--git-write")
    screen.plain(key)

    screen.step(f"Connect the repository: agentjobs repos connect {repository.name}")
    await service.command("repos", "connect", str(repository), f"--name={sample.FULL_NAME}")
    async with AsyncClient(service.base_url, key) as client:
        await _until_ready(client)

        screen.step(f"Add a webhook: agentjobs webhooks add {receiver.url}")
        receiver.secret = await service.command("webhooks", "add", receiver.url)
        screen.plain(receiver.secret)

        screen.step("Create a job: POST /v1/jobs")
        screen.plain(f'{{"repo": "{sample.FULL_NAME}", "agent": "{AGENT}"}}')
        created_at = time.monotonic()
        receipt = await client.create_job(sample.FULL_NAME, AGENT)
        job = await _watch(client, receipt.job_id)
        seconds = time.monotonic() - created_at

    if job.status != "completed" or job.pr_url is None:
        reason = f"{job.error.code}: {job.error.message}" if job.error else job.status
        raise DemoFailed(f"the job did not complete: {reason}")
    await _show_deliveries(receiver)
    await _show_pull_request(service, job, seconds)


async def _until_ready(client: AsyncClient) -> None:
    screen.plain(f"{sample.FULL_NAME} is being indexed")
    give_up_at = time.monotonic() + _READY_SECONDS
    while time.monotonic() < give_up_at:
        for repo in await client.repos():
            if repo.accepts_jobs:
                screen.plain(f"{repo.full_name} is ready: {repo.line_count} lines")
                return
        await asyncio.sleep(_POLL_SECONDS)
    raise DemoFailed(f"{sample.FULL_NAME} was not indexed within {_READY_SECONDS:g} s")


async def _watch(client: AsyncClient, job_id: str) -> Job:
    """Shows the log and status changes, and returns the finished job."""
    log = asyncio.create_task(_show_log(client, job_id))
    try:
        async for job in client.watch(job_id):
            if job.is_finished:
                # Show the end of the log before the final status.
                await log
            screen.plain(f"{job_id} is {job.status}")
    finally:
        log.cancel()
    return job


async def _show_log(client: AsyncClient, job_id: str) -> None:
    unfinished = ""
    async for text in client.logs(job_id, follow=True):
        *lines, unfinished = (unfinished + text).split("\n")
        for line in lines:
            screen.log(line)
    if unfinished:
        screen.log(unfinished)


async def _show_deliveries(receiver: Receiver) -> None:
    screen.step("Webhook deliveries")
    expected = {"job.completed", "pr.review_requested"}
    try:
        async with asyncio.timeout(_DELIVERY_SECONDS):
            while expected:
                event = await receiver.next_event()
                screen.plain(f"{event.event:<19}  {event.delivery_id}  signature valid")
                expected.discard(event.event)
    except TimeoutError:
        missing = " and ".join(sorted(expected))
        reason = f"no webhook for {missing} arrived within {_DELIVERY_SECONDS:g} s"
        raise DemoFailed(reason) from None


async def _show_pull_request(service: DemoService, job: Job, seconds: float) -> None:
    number = str(job.pr_number)
    output = await service.command("pulls", "show", sample.FULL_NAME, number, "--json")
    pull = msgspec.json.decode(output, type=_Pull)
    screen.step(f"Pull request, opened {seconds:.1f} s after the job was created")
    screen.text(f"{pull.title}\n\n{pull.body.strip()}\n")
    screen.text(pull.diff.rstrip("\n"))
    screen.step("URL of the pull request")
    screen.plain(str(job.pr_url))


async def _show_next_steps(service: DemoService) -> None:
    screen.step("Open the dashboard (this link works once, within 10 minutes)")
    screen.plain(await service.command("users", "sign-in-link", "admin@localhost"))
    screen.step("Merge the pull request")
    data_dir_option = f"--data-dir {service.data_dir}"
    screen.plain(f"{sys.argv[0]} pulls merge {sample.FULL_NAME} 1 {data_dir_option}")
    screen.step("The service runs until you press Ctrl-C")


def _stop_signal() -> "asyncio.Future[None]":
    """Done at Ctrl-C and SIGTERM, so that no process is left running."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def request_stop() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, request_stop)
    return stop


async def _run_until(steps: asyncio.Task[None], stop: "asyncio.Future[None]") -> None:
    either: set[asyncio.Future[Any]] = {steps, stop}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if steps.done():
        await steps
        return
    steps.cancel()
    await asyncio.wait({steps})
