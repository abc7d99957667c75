"""The sandbox of a service that tests attack, and how it differs from bubblewrap."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.sandbox import unused_uid_base


@dataclass(frozen=True)
class AttackedSandbox:
    """`variables` are settings of the service; only agents have `uids`, if they are known."""

    variables: Mapping[str, str] = field(default_factory=dict)
    uids: range | None = None
    # Attempts that succeed in this sandbox, because they reach only what is the agent's own.
    harmless: frozenset[str] = frozenset()
    # Commands of the sandbox itself that may end a moment after the job.
    frame: tuple[bytes, ...] = ()
    # How far the limit of processes is above the agent's.
    extra_processes: int = 0
    # How many an agent in an environment sees.
    overlays: int = 2
    # At least so many are open in the service for 1,200 connections of two agents.
    connection_descriptors: int = 400

    def new_uids(self) -> range:
        """For one service."""
        if self.uids is not None:
            return self.uids
        first = unused_uid_base()
        return range(first, first + 10)
