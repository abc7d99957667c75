"""Options shared by several commands."""

from pathlib import Path
from typing import Annotated

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
