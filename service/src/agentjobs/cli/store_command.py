"""Commands that work on the store and return what to print."""

import inspect
from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import Any

from agentjobs.cli.admin import with_store
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import Answer, Table, print_answer


def store_command(function: Callable[..., Awaitable[Answer | Table]]) -> Callable[..., None]:
    """Adds the options --data-dir and --json to those of the function.

    The function gets the open store as its first argument. Its answer is printed after the store
    is closed.
    """

    def run(*, data_dir: DataDir = None, json: Json = False, **values: Any) -> None:
        print_answer(with_store(data_dir, lambda admin: function(admin, **values)), json=json)

    own = [*inspect.signature(function).parameters.values()][1:]
    shared = [*inspect.signature(run).parameters.values()][:2]
    update_wrapper(run, function)
    vars(run)["__signature__"] = inspect.Signature([*own, *shared])
    return run
