"""Sandboxes on a cluster, which an installed package provides by an entry point of `GROUP`."""

from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, cast

from agentjobs_runtime.settings import Settings
from agentjobs_worker.sandbox.protocol import (
    RootImage,
    Sandbox,
    SandboxDescription,
    SandboxUnavailable,
)

GROUP = "agentjobs_worker.clusters"


class ClusterSandbox(Sandbox, Protocol):
    async def probe(self) -> None:
        """Raises SandboxUnavailable if this worker cannot use the cluster now."""

    async def find_programs(
        self, names: Collection[str], *, image: RootImage | None = None, path: str = ""
    ) -> dict[str, str]:
        """Where they are for a command in this image. Missing ones are left out.

        `path` is where to look, if it is not the usual one. Raises SandboxError.
        """


class Cluster(Protocol):
    """What the module of an entry point contains."""

    # The sandboxes of one process, or of one data directory, which the identifier names.
    open_sandbox: Callable[[Settings, str, Path], AbstractAsyncContextManager[ClusterSandbox]]
    describe: Callable[[Any], Awaitable[SandboxDescription]]
    # Logs an error if the network of the cluster does not isolate agents.
    check_network: Callable[[Any], Awaitable[None]]
    # Whether agents get a copy of this file of the worker's machine.
    is_copied: Callable[[Path], bool]


def load_cluster() -> Cluster:
    """Raises SandboxUnavailable."""
    for entry_point in entry_points(group=GROUP, name="kubernetes"):
        return cast("Cluster", entry_point.load())
    raise SandboxUnavailable(
        "the worker has no support for Kubernetes: run `pip install 'agentjobs-worker[kubernetes]'`"
    )
