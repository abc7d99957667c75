"""What every process that is forked from `preloaded_cli` would otherwise do again.

The imports of administrative commands, a client and a service; the command line; certificates.
"""

import importlib

import typer.main

from agentjobs.cli.commands import COMMANDS, load_command
from agentjobs.cli.main import app
from agentjobs_runtime.outbound.guard.sessions import load_tls_context

_MODULES = (
    "agentjobs.app.services",
    "agentjobs.cli.admin",
    "agentjobs.organizations.organizations",
    "agentjobs.repos.connect",
    "agentjobs_worker.sandbox.description",
    "agentjobs.store.opening",
    "agentjobs_client",
    # Imported when the first option is parsed.
    "typer._adapters",
    "uvicorn.lifespan.off",
    "uvloop",
)


def warm_up() -> None:
    for module in _MODULES:
        importlib.import_module(module)
    typer.main.get_command(app)
    for name in COMMANDS:
        load_command(name)
    load_tls_context("")
