"""What the agent of a repository needs. Does not know where it is declared."""

from collections.abc import Mapping

import msgspec


class ServiceDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A process beside the agent, reached on its loopback.

    Without an `image` it runs on the environment's own file system, and needs a `command`.
    """

    name: str
    image: str = ""
    command: str = ""
    ready: str = ""
    variables: Mapping[str, str] = {}


class EnvironmentDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """`setup`, `start`, and `command` and `ready` of services, are shell commands.

    Empty values mean that there is none; `cache` is None for the lock files that are found.
    """

    image: str = ""
    setup: str = ""
    start: str = ""
    cache: tuple[str, ...] | None = None
    variables: Mapping[str, str] = {}
    services: tuple[ServiceDefinition, ...] = ()
