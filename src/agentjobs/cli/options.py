"""Options that several commands share, so that a flag means the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Where the service keeps its data (or AGENTJOBS_DATA_DIR).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]
Org = Annotated[str, typer.Option("--org", metavar="NAME", help="The organization.")]
Host = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="Address to listen on (default 127.0.0.1)."),
]
Port = Annotated[
    int | None,
    typer.Option("--port", help="Port to listen on (default 8080; 0 takes a free one)."),
]
Slots = Annotated[
    int | None,
    typer.Option("--slots", min=1, help="Jobs to run at once (default: the number of cores)."),
]
Severity = Annotated[
    str | None,
    typer.Argument(
        metavar="[SEVERITY]",
        help="low, medium, high, critical, none, or default to leave it to what stands above.",
    ),
]

DEFAULT_ORG = "default"
