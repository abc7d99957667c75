"""The table of all targets."""

from tests.hostile.fuzz.target import Target
from tests.hostile.fuzz.targets import advisories, git, http, inventory, platforms, text

TARGETS: tuple[Target, ...] = (
    *git.TARGETS,
    *inventory.TARGETS,
    *advisories.TARGETS,
    *http.TARGETS,
    *platforms.TARGETS,
    *text.TARGETS,
)
