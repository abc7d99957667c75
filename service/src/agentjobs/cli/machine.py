"""Refuses commands that only work on Linux before they import what others lack."""

import platform

import typer


def require_linux() -> None:
    system = platform.system()
    if system == "Linux":
        return
    name = {"Darwin": "macOS"}.get(system, system)
    raise typer.TyperException(
        f"this command runs on Linux only, and this is {name} ({platform.machine()}): run it on a "
        "Linux machine, in a virtual machine or in the container image; `agentjobs login` and "
        "the commands of a client work here"
    )
