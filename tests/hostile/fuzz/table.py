"""The table of all targets."""

from tests.hostile.fuzz.target import Target
from tests.hostile.fuzz.targets import (
    advisories,
    git,
    images,
    inventory,
    outbound,
    platforms,
    pods,
    text,
    web,
)

TARGETS: tuple[Target, ...] = (
    *git.TARGETS,
    *images.TARGETS,
    *inventory.TARGETS,
    *advisories.TARGETS,
    *web.TARGETS,
    *outbound.TARGETS,
    *platforms.TARGETS,
    *pods.TARGETS,
    *text.TARGETS,
)
