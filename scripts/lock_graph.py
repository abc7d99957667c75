"""Reads from a lock file what an installation on Linux consists of, and what requires what.

Packages that only build the project, or that other systems need, are left out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.markers import Marker

SERVER, CLIENT = "agentjobs", "agentjobs-client"
# A package of this repository, and the file that has the requirement.
_OWN_REQUIREMENT = re.compile(r"(agentjobs\S*) \(\S*pyproject\.toml\)")
_PIN = re.compile(
    r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>\S+)(?: ; (?P<marker>[^\\\n]+))?(?P<rest>.*?)"
    r"(?=^[a-z0-9]|\Z)",
    re.MULTILINE | re.DOTALL,
)
_VIA = re.compile(r"# via(?: (\S.*)|((?:\n +#   .+)+))")
_PYTHONS = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")


@dataclass(frozen=True)
class Pin:
    """`required_by` are names of packages, of this repository or of the lock file."""

    name: str
    version: str
    required_by: frozenset[str]


def runtime_pins(lock: str) -> dict[str, Pin]:
    pins = {pin.name: pin for pin in _pins(lock)}
    reached: dict[str, Pin] = {}
    while new := {
        name: pin
        for name, pin in pins.items()
        if name not in reached and pin.required_by & {SERVER, CLIENT, *reached}
    }:
        reached |= new
    return dict(sorted(reached.items()))


def _pins(lock: str) -> Iterator[Pin]:
    for match in _PIN.finditer(lock):
        if match["marker"] is None or _applies_to_linux(Marker(match["marker"].strip())):
            via = _VIA.search(match["rest"])
            lines = (via[1] or via[2]).splitlines() if via else []
            parents = {line.strip().lstrip("#").strip() for line in lines}
            # The service's installation contains all parts.
            if any(
                own[1] != CLIENT for parent in parents if (own := _OWN_REQUIREMENT.match(parent))
            ):
                parents.add(SERVER)
            yield Pin(match["name"], match["version"], frozenset(parents))


def _applies_to_linux(marker: Marker) -> bool:
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    return any(
        marker.evaluate({**linux, "python_full_version": python, "python_version": python[:4]})
        for python in _PYTHONS
    )
