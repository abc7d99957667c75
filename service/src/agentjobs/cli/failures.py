"""Reports an error as one line on stderr; a traceback only on request."""

import errno
import os
import sys
import traceback

import typer

from agentjobs.cli.output import escape_line
from agentjobs_runtime.free_space import explain_os_error

FAILED = 2
TRACEBACK_VARIABLE = "AGENTJOBS_TRACEBACK"
# By name, because importing these classes would slow every command down.
EXPECTED = frozenset(
    {
        "agentjobs_runtime.problems.Problem",
        "agentjobs_runtime.settings.load.SettingsError",
        "agentjobs.store.database.StoreError",
        "agentjobs_runtime.git.process.GitError",
        "agentjobs_runtime.git.version.UnsuitableGit",
        "agentjobs_worker.sandbox.protocol.SandboxError",
        "agentjobs_client.errors.ClientError",
    }
)


def report(error: BaseException) -> int:
    """Prints the error on stderr and returns the exit code."""
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    if type(error).__name__ == "NoArgsIsHelpError":
        # A noun without a verb prints its help.
        print(error, file=sys.stderr, flush=True)
        return FAILED
    line = escape_line(" ".join(describe(_first_cause(error)).split()))
    print(f"agentjobs: {line}", file=sys.stderr, flush=True)
    return FAILED


def describe(error: BaseException) -> str:
    if isinstance(error, typer.TyperException):
        return _describe_usage_error(error)
    if is_expected(error):
        notes = getattr(error, "__notes__", ())
        return " ".join((str(error), *(f"({note})" for note in notes)))
    if isinstance(error, OSError):
        return _describe_os_error(error)
    if isinstance(error, UnicodeError):
        return "the input is not valid UTF-8"
    return (
        f"unexpected {type(error).__name__}: {error}; this is a bug, please report it "
        f"(set {TRACEBACK_VARIABLE}=1 for a traceback)"
    )


def is_expected(error: BaseException) -> bool:
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    return not kinds.isdisjoint(EXPECTED)


def _describe_usage_error(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see `{context.command_path} --help`)" if context is not None else ""
    return error.format_message() + hint


def _describe_os_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    if (explanation := explain_os_error(error)) is not None:
        return explanation
    if error.errno == errno.EADDRINUSE:
        return f"{reason}; choose another port with --port"
    return f"{error.filename}: {reason}" if error.filename else reason


def _first_cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
