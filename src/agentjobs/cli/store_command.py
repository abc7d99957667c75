"""Commands that work on the store and return what to print, as text or as JSON."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import update_wrapper
from typing import Any, NamedTuple

from agentjobs.cli.admin import with_store
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import print_json, print_note, print_result, print_table


class Answer(NamedTuple):
    """A document for --json; otherwise lines on stdout, then notes on stderr."""

    document: Any
    lines: Iterable[str]
    notes: Iterable[str] = ()

    def print_text(self) -> None:
        for line in self.lines:
            print_result(line)
        for note in self.notes:
            print_note(note)


class Table(NamedTuple):
    """A document for --json; otherwise a table."""

    document: Any
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def print_text(self) -> None:
        print_table(self.columns, self.rows)


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


def print_answer(answer: Answer | Table, *, json: bool) -> None:
    if json:
        print_json(answer.document)
    else:
        answer.print_text()
