"""Commands that work on the store and return what to print."""

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DataDir, Json, share_options
from agentjobs.cli.output import Answer, Secret, Table, print_answer, print_secret

Printed = Answer | Secret | Table
Work = Callable[[Admin], Awaitable[Printed]]


def store_command(
    function: Callable[..., Awaitable[Printed]] | Callable[..., Work],
) -> Callable[..., None]:
    """Adds the options --data-dir and --json to those of the function.

    A coroutine function gets the open store as its first argument. Another function checks its
    arguments before the store is opened, and returns a coroutine function of it. The answer is
    printed after the store is closed.
    """
    is_work = inspect.iscoroutinefunction(function)

    def run(*, data_dir: DataDir = None, json: Json = False, **values: Any) -> None:
        work: Any = (lambda admin: function(admin, **values)) if is_work else function(**values)
        answer = with_store(data_dir, work)
        if isinstance(answer, Secret):
            _show_secret(answer, data_dir, json=json)
        else:
            print_answer(answer, json=json)

    return share_options(run, function, first=int(is_work))


def _show_secret(secret: Secret, data_dir: Path | None, *, json: bool) -> None:
    reason = print_secret(secret, json=json)
    if reason is None:
        return
    from agentjobs_runtime.problems import Problem

    if secret.undo is not None:
        with_store(data_dir, secret.undo)
    message = f"The {secret.what} could not be printed: {reason}. {secret.remedy}"
    raise Problem("secret_not_shown", message)
