"""Reports the phases of jobs from inside a process of the fleet, and waits there for a reply.

A fault that is planned for a phase happens before the reply, so that it meets the process exactly
there: a process that is stopped at `pushing` continues with the push when it is resumed.
"""

import functools
import importlib
import inspect
import json
import os
import re
import select
import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import agentjobs

SOCKET = "FAULTS_SOCKET"
NAME = "FAULTS_PROCESS"
SETUP = f"{__name__}:install"
# The first report of a process.
BEGUN = "begun"
# A line of an agent: its run and the line's number.
LINE = re.compile(r"^([0-9a-f]{8}-[0-9a-f-]{27})-(\d+)$", re.MULTILINE)


class Failpoint(NamedTuple):
    """A function, and the phases that its call and its return mean, if they are about something."""

    module: str
    function: str
    before: str = ""
    after: str = ""
    is_reached: Callable[[tuple[Any, ...], Any], bool] = lambda _arguments, _result: True


_JOBS = (
    Failpoint("agentjobs_worker.loops.job_loop", "run_job", before="claimed"),
    Failpoint("agentjobs_worker.run.run", "prepare_task", before="preparing"),
    # Right before the agent is spawned.
    Failpoint("agentjobs.workers.handlers", "start_job", after="started"),
    Failpoint("agentjobs_worker.run.run", "commit_work", before="agent-ended"),
    Failpoint("agentjobs_worker.run.run", "pack_work", after="keeping"),
    Failpoint("agentjobs_worker.loops.job_loop", "pack_work", after="keeping"),
    Failpoint("agentjobs.workers.handlers", "finish_job", before="finishing", after="finished"),
    # Output of an agent is stored.
    Failpoint(
        "agentjobs.workers.handlers",
        "append_chunk",
        before="logging",
        is_reached=lambda arguments, _: LINE.search(arguments[2]) is not None,
    ),
)
_PUBLISHING = (
    Failpoint("agentjobs.publishing.publish", "_restore", before="publishing-kept"),
    Failpoint("agentjobs.publishing.publish", "push_commit", before="pushing", after="pushed"),
    Failpoint("agentjobs.publishing.publish", "open_pull_request", after="pull-opened"),
    Failpoint("agentjobs.loops.publish_loop", "finish_job", before="storing", after="finished"),
)
# Every process looks for lost jobs; most of the time there are none.
_RESCUE = (
    Failpoint(
        "agentjobs.loops.rescue_loop",
        "rescue_lost_jobs",
        after="rescued",
        is_reached=lambda _, jobs: bool(jobs),
    ),
)
_DELIVERIES = (Failpoint("agentjobs.webhooks.sender", "send", before="sending", after="sent"),)
_API = (
    Failpoint("agentjobs.web.api.jobs", "create_job", after="accepted"),
    # The push is authorized and waits for the repository.
    Failpoint("agentjobs.web.git.routes", "changing_repository", before="authorized"),
    Failpoint("agentjobs.web.git.routes", "record_push", before="received"),
)
_OF_ROLE = {
    "up": (*_JOBS, *_PUBLISHING, *_RESCUE, *_DELIVERIES, *_API),
    "serve": (*_PUBLISHING, *_RESCUE, *_DELIVERIES, *_API),
    "worker": (*_JOBS, *_RESCUE, *_DELIVERIES),
}


def install() -> None:
    """Called in a new process, before it serves."""
    if "FAKETIME_TIMESTAMP_FILE" in os.environ:
        # libfaketime refuses the clock_nanosleep of Python with EINVAL once the clock has moved.
        time.sleep = _sleep
    name = os.environ[NAME]
    report = functools.partial(_report, os.environ[SOCKET], name)
    report(BEGUN, "", 0)
    for point in _OF_ROLE[name.partition("-")[0]]:
        module = importlib.import_module(point.module)
        original = getattr(module, point.function)
        setattr(module, point.function, _wrap(original, point, report))


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


def _report(path: str, process: str, phase: str, job_id: str, fence: int) -> None:
    report = {
        "process": process,
        "pid": os.getpid(),
        "phase": phase,
        "job_id": job_id,
        "fence": fence,
        "package": agentjobs.__file__,
    }
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(json.dumps(report).encode() + b"\n")
            connection.recv(1)
    except OSError:
        pass  # the run is over


def _wrap(
    original: Callable[..., Any], point: Failpoint, report: Callable[[str, str, int], None]
) -> Callable[..., Any]:
    def reach(phase: str, arguments: tuple[Any, ...], result: object = None) -> None:
        if phase and point.is_reached(arguments, result):
            report(phase, *_claim(arguments))

    if not inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        def call(*arguments: Any, **options: Any) -> Any:
            reach(point.before, arguments)
            result = original(*arguments, **options)
            reach(point.after, arguments, result)
            return result

        return call

    @functools.wraps(original)
    async def call_async(*arguments: Any, **options: Any) -> Any:
        reach(point.before, arguments)
        result = await original(*arguments, **options)
        reach(point.after, arguments, result)
        return result

    return call_async


def _claim(arguments: tuple[Any, ...]) -> tuple[str, int]:
    """The claim that a call is about, if it names one."""
    for argument in arguments:
        claim = getattr(getattr(argument, "job", argument), "claim", None)
        if isinstance(claim, tuple):
            return claim
    return "", 0
