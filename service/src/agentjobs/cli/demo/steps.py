"""The steps of the demo. Each is what a user would do by hand."""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from agentjobs.cli.demo import sample
from agentjobs.cli.demo.receiver import Receiver, running_receiver
from agentjobs.cli.demo.service import DemoFailed, DemoService, running_service
from agentjobs.cli.output import print_result
from agentjobs_client import AsyncClient, Job

AGENT = "lint-fixer"
_READY_SECONDS = 30.0
_DELIVERY_SECONDS = 30.0
_POLL_SECONDS = 0.1


class _Pull(msgspec.Struct):
    title: str
    body: str
    diff: str


def _print_step(text: str) -> None:
    print_result(f"\n{text}")


def _print(text: str) -> None:
    """A part of a step."""
    print_result(f"  {text}")


async def run_demo(directory: Path, *, stay_open: bool) -> None:
    stop = _stop_signal()
    _print_step("Create a repository with lint problems")
    await sample.make_repository(directory / "shop")
    _print(str(directory / "shop"))

    _print_step("Start the service: agentjobs up")
    async with running_receiver() as receiver, running_service(directory / "data") as service:
        _print(service.base_url)
        steps = asyncio.create_task(_run_steps(service, receiver, directory / "shop"))
        await _run_until(steps, stop)
        if stop.done():
            return
        if stay_open:
            await _show_next_steps(service)
            await stop
            _print_step("Stopped. All files of the demo were deleted")


async def _run_steps(service: DemoService, receiver: Receiver, repository: Path) -> None:
    _print_step("Create an API key: agentjobs keys create")
    key = await service.command("keys", "create", "--name=demo", "--git-write")
    _print(key)

    _print_step(f"Connect the repository: agentjobs repos connect {repository.name}")
    await service.command("repos", "connect", str(repository), f"--name={sample.FULL_NAME}")
    async with AsyncClient(service.base_url, key) as client:
        await _until_ready(client)

        _print_step(f"Add a webhook: agentjobs webhooks add {receiver.url}")
        receiver.secret = await service.command("webhooks", "add", receiver.url)
        _print(receiver.secret)

        _print_step("Create a job: POST /v1/jobs")
        _print(f'{{"repo": "{sample.FULL_NAME}", "agent": "{AGENT}"}}')
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
    _print(f"{sample.FULL_NAME} is being indexed")
    give_up_at = time.monotonic() + _READY_SECONDS
    while time.monotonic() < give_up_at:
        for repo in await client.repos():
            if repo.accepts_jobs:
                _print(f"{repo.full_name} is ready: {repo.line_count} lines")
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
            _print(f"{job_id} is {job.status}")
    finally:
        log.cancel()
    return job


async def _show_log(client: AsyncClient, job_id: str) -> None:
    unfinished = ""
    async for text in client.logs(job_id, follow=True):
        *lines, unfinished = (unfinished + text).split("\n")
        for line in lines:
            _print(f"| {line}")
    if unfinished:
        _print(f"| {unfinished}")


async def _show_deliveries(receiver: Receiver) -> None:
    _print_step("Webhook deliveries")
    expected = {"job.completed", "pr.review_requested"}
    try:
        async with asyncio.timeout(_DELIVERY_SECONDS):
            while expected:
                event = await receiver.next_event()
                _print(f"{event.event:<19}  {event.delivery_id}  signature valid")
                expected.discard(event.event)
    except TimeoutError:
        missing = " and ".join(sorted(expected))
        reason = f"no webhook for {missing} arrived within {_DELIVERY_SECONDS:g} s"
        raise DemoFailed(reason) from None


async def _show_pull_request(service: DemoService, job: Job, seconds: float) -> None:
    number = str(job.pr_number)
    output = await service.command("pulls", "show", sample.FULL_NAME, number, "--json")
    pull = msgspec.json.decode(output, type=_Pull)
    _print_step(f"Pull request, opened {seconds:.1f} s after the job was created")
    print_result(f"{pull.title}\n\n{pull.body.strip()}\n")
    print_result(pull.diff.rstrip("\n"))
    _print_step("URL of the pull request")
    _print(str(job.pr_url))


async def _show_next_steps(service: DemoService) -> None:
    _print_step("Open the dashboard (this link works once, within 10 minutes)")
    _print(await service.command("users", "sign-in-link", "admin@localhost"))
    _print_step("Merge the pull request")
    data_dir_option = f"--data-dir {service.data_dir}"
    _print(f"{sys.argv[0]} pulls merge {sample.FULL_NAME} 1 {data_dir_option}")
    _print_step("The service runs until you press Ctrl-C")


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
