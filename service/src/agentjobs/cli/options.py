"""Options shared by several commands."""

import inspect
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from typing import Annotated, Any

import typer

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Data directory of the service (or set AGENTJOBS_DATA_DIR).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Org = Annotated[str, typer.Option("--org", metavar="NAME", help="Organization.")]
Host = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="Address to listen on (default 127.0.0.1)."),
]
Port = Annotated[
    int | None,
    typer.Option("--port", help="Port to listen on (default 8080; 0 picks a free port)."),
]
Slots = Annotated[
    int | None,
    typer.Option(
        "--slots", min=1, help="Number of concurrent jobs (default: the number of cores)."
    ),
]
Tags = Annotated[
    str | None,
    typer.Option(
        "--tags", metavar="TAG,…", help="What this worker offers to agents and repositories."
    ),
]
Severity = Annotated[
    str | None,
    typer.Argument(
        metavar="[SEVERITY]",
        help="low, medium, high, critical, none, or default to inherit the setting.",
    ),
]

DEFAULT_ORG = "default"


def share_options(
    run: Callable[..., None], function: Callable[..., Any], *, first: int
) -> Callable[..., None]:
    """`run` as the command `function`, with the parameters of both.

    The function's own begin at `first`: `run` passes the others itself.
    """
    own = [*inspect.signature(function).parameters.values()][first:]
    shared = [*inspect.signature(run).parameters.values()][:-1]
    update_wrapper(run, function)
    vars(run)["__signature__"] = inspect.Signature([*own, *shared])
    # The types of the first parameters may not be imported.
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *shared)}
    return run
