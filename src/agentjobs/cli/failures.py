"""Turns what went wrong into the one line a person reads; a traceback is only shown on request."""

import errno
import os
import sys
import traceback

import typer

from agentjobs.cli.output import on_one_line

FAILED = 2
TRACEBACK_VARIABLE = "AGENTJOBS_TRACEBACK"
# By name: what was never imported cannot have been raised, and importing it would take time.
EXPECTED = frozenset(
    {
        "agentjobs.problems.Problem",
        "agentjobs.settings.load.SettingsError",
        "agentjobs.store.database.StoreError",
        "agentjobs.git.process.GitError",
        "agentjobs.sandbox.protocol.SandboxError",
        "agentjobs_client.errors.ClientError",
    }
)


def report(error: BaseException) -> int:
    """Print the line on stderr and say which exit code to leave with."""
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    if type(error).__name__ == "NoArgsIsHelpError":
        # A noun without a verb: the help is the answer, on as many lines as it takes.
        print(error, file=sys.stderr, flush=True)
        return FAILED
    line = on_one_line(" ".join(describe(_first_cause(error)).split()))
    print(f"agentjobs: {line}", file=sys.stderr, flush=True)
    return FAILED


def describe(error: BaseException) -> str:
    if isinstance(error, typer.TyperException):
        return _usage(error)
    if is_expected(error):
        return str(error)
    if isinstance(error, OSError):
        return _operating_system(error)
    if isinstance(error, UnicodeError):
        return "something that was given is not valid UTF-8"
    return (
        f"unexpected {type(error).__name__}: {error}; this is a bug, please report it "
        f"({TRACEBACK_VARIABLE}=1 shows where it happened)"
    )


def is_expected(error: BaseException) -> bool:
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    return not kinds.isdisjoint(EXPECTED)


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see `{context.command_path} --help`)" if context is not None else ""
    return error.format_message() + hint


def _operating_system(error: OSError) -> str:
    reason = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        return f"{reason}; choose another with --port"
    return f"{error.filename}: {reason}" if error.filename else reason


def _first_cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
