"""Describes the sandbox of this machine, or of its cluster, for `agentjobs doctor`.

Runs a trial and changes nothing.
"""

import asyncio
import os
import shutil
import subprocess

from agentjobs_runtime.sandboxes.slots import build_slots
from agentjobs_runtime.settings import Settings
from agentjobs_worker.sandbox.bubblewrap import NO_CPU_CONTROLLER, BubblewrapSandbox
from agentjobs_worker.sandbox.cgroup_delegation import (
    NotDelegated,
    delegation_command,
    find_delegated_cgroup,
    has_cpu_controller,
)
from agentjobs_worker.sandbox.clusters import load_cluster
from agentjobs_worker.sandbox.factory import open_trial_pods
from agentjobs_worker.sandbox.process import WARNING
from agentjobs_worker.sandbox.protocol import SandboxDescription, SandboxUnavailable
from agentjobs_worker.sandbox.syscalls import architecture_of_this_machine

RLIMITS = "rlimits and a watchdog"
_VERSION_SECONDS = 10
_MAX_UID = 2**32 - 2


async def describe_sandbox(settings: Settings) -> SandboxDescription:
    if settings.uses_kubernetes:
        return await _describe_pods(settings)
    if not settings.has_sandbox:
        return SandboxDescription(
            kind="none",
            runs_as="the user of this service",
            seccomp="no filter",
            limits="none but the sizes of files and of the workspace",
            problems=(f'{WARNING} Set sandbox = "bubblewrap".',),
        )
    limits, notes = _limits()
    problems = await _problems(settings)
    environments = ""
    if not problems:
        try:
            environments = await _environments(settings)
        except SandboxUnavailable as error:
            notes += (str(error),)
    return SandboxDescription(
        kind="bubblewrap",
        version=await _version(),
        runs_as=_runs_as(settings),
        seccomp=_seccomp(),
        limits=limits,
        environments=environments,
        problems=problems,
        notes=notes,
    )


async def _describe_pods(settings: Settings) -> SandboxDescription:
    async with open_trial_pods(settings) as sandbox:
        return await load_cluster().describe(sandbox)


async def _problems(settings: Settings) -> tuple[str, ...]:
    highest = settings.sandbox_uid_base + build_slots(settings.effective_slots)[-1]
    if os.geteuid() == 0 and highest > _MAX_UID:
        return (f"sandbox_uid_base is too high for {settings.effective_slots} slots: lower it",)
    try:
        await BubblewrapSandbox(settings.sandbox_uid_base).probe()
    except SandboxUnavailable as error:
        return (str(error),)
    return ()


async def _environments(settings: Settings) -> str:
    """Raises SandboxUnavailable."""
    directory = settings.data_path
    while not directory.exists():
        directory = directory.parent
    await BubblewrapSandbox(settings.sandbox_uid_base).check_layers(directory)
    if os.geteuid() == 0:
        return "overlays by root, with idmapped owners"
    return "overlays in a user namespace"


def _runs_as(settings: Settings) -> str:
    if os.geteuid() != 0:
        return "the user of this service, in a user namespace"
    first = settings.sandbox_uid_base
    return f"uids {first} to {first + settings.effective_slots - 1}, one for each slot"


def _seccomp() -> str:
    architecture = architecture_of_this_machine()
    return "no filter" if architecture is None else f"filter for {architecture.name}"


def _limits() -> tuple[str, tuple[str, ...]]:
    try:
        root = find_delegated_cgroup()
    except NotDelegated as why:
        note = (
            f"no cgroup is delegated to this process ({why}), so the kernel does not limit the "
            f"memory and CPU time of an agent as a whole: {delegation_command()}; in a systemd "
            "unit, set `Delegate=cpu memory pids`"
        )
        return RLIMITS, (note,)
    has_cpus = has_cpu_controller(root)
    notes = () if has_cpus else (f"limit_cpus has no effect: {NO_CPU_CONTROLLER}",)
    return f"cgroup v2 at {root}", notes


async def _version() -> str:
    """Empty if bwrap is missing or does not report it."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return ""
    try:
        reported = await asyncio.to_thread(
            subprocess.run,
            (bwrap, "--version"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    output = reported.stdout.decode(errors="replace")
    return output.split("\n")[0].removeprefix("bubblewrap").strip()
