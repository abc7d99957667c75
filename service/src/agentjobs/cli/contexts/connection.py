"""Which service a client command talks to, and with which API key."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from agentjobs.cli.live_line import can_show_line, clear_line
from agentjobs.cli.options import Json, share_options
from agentjobs.cli.output import Answer, Table, print_answer, print_note

if TYPE_CHECKING:
    from agentjobs_client import Client
    from agentjobs_runtime.problems import Problem

URL_VARIABLE = "AGENTJOBS_URL"
KEY_VARIABLE = "AGENTJOBS_API_KEY"
CONTEXT_VARIABLE = "AGENTJOBS_CONTEXT"
CA_FILE_VARIABLE = "AGENTJOBS_CA_FILE"
_MAY_BE_ANOTHER_SERVICE = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})
# The job exists, so that neither the address nor the key is wrong.
_FOUND_THE_JOB = frozenset({"diff_not_available", "artifact_not_found"})


def complete_context(incomplete: str) -> list[str]:
    from agentjobs.cli.contexts.credentials import credentials_path, load_credentials

    try:
        names = load_credentials(credentials_path()).contexts
    except Exception:  # noqa: BLE001 - a shell has no place for an error
        return []
    return [name for name in names if name.startswith(incomplete)]


ContextName = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="Context to use (see `agentjobs contexts`).",
        autocompletion=complete_context,
    ),
]


class Connection(NamedTuple):
    url: str
    api_key: str
    # What chose it, for error messages.
    source: str
    # None: that of AGENTJOBS_CA_FILE, if there is one.
    ca_file: str | None = None


def choose_connection(context: str | None, environ: Mapping[str, str] | None = None) -> Connection:
    """--context, then AGENTJOBS_URL, then AGENTJOBS_CONTEXT, then the current context."""
    environ = os.environ if environ is None else environ
    url, api_key = environ.get(URL_VARIABLE, ""), environ.get(KEY_VARIABLE, "")
    if context is None and (url or api_key):
        _check_complete(url, api_key)
        return Connection(url, api_key, URL_VARIABLE)
    from agentjobs.cli.contexts.credentials import credentials_path, load_credentials
    from agentjobs_runtime.problems import Problem

    credentials = load_credentials(credentials_path(environ))
    name = context or environ.get(CONTEXT_VARIABLE) or credentials.current
    if name is None:
        raise Problem("no_service", _missing_service_reason(bool(credentials.contexts)))
    chosen = credentials.find(name)
    return Connection(chosen.url, chosen.api_key, f"context {chosen.name}", chosen.ca_file)


@contextmanager
def connect(context: str | None) -> Iterator["Client"]:
    """A client of the chosen service; errors say which one that is."""
    connection = choose_connection(context)
    with explain_errors(connection), open_client(connection) as client:
        yield client


def client_command(function: Callable[..., Answer | Table]) -> Callable[..., None]:
    """Adds the options --context and --json. The function gets a client as its first argument."""

    def run(*, context: ContextName = None, json: Json = False, **values: Any) -> None:
        with connect(context) as client:
            answer = function(client, **values)
        print_answer(answer, json=json)

    return share_options(run, function, first=1)


@contextmanager
def explain_errors(connection: Connection) -> Iterator[None]:
    """Errors that the address or the key may have caused name them."""
    _skip_command_line_of_httpx()
    from agentjobs_client import ApiError, ClientError

    try:
        yield
    except ApiError as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            raise _refused_key(connection) from error
        if error.status in _MAY_BE_ANOTHER_SERVICE and error.code not in _FOUND_THE_JOB:
            error.add_note(f"{connection.source}: {connection.url}")
        raise
    except ClientError as error:
        error.add_note(connection.source)
        raise


def open_client(connection: Connection) -> "Client":
    _skip_command_line_of_httpx()
    from agentjobs_client import Client

    pause = RetryPause(connection.url)
    return Client(connection.url, connection.api_key, ca_file=connection.ca_file, pause=pause)


def _skip_command_line_of_httpx() -> None:
    """Before the first import of httpx, which otherwise imports Rich and Pygments for it."""
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]


class RetryPause:
    """Says on a terminal, once, that a service does not respond, which may take minutes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._is_known = False

    def __call__(self, seconds: float) -> None:
        if not self._is_known and can_show_line():
            clear_line()
            print_note(f"{self._url} does not respond; trying again")
        self._is_known = True
        time.sleep(seconds)


def _check_complete(url: str, api_key: str) -> None:
    """A key of one source is never sent to the address of another."""
    if api_key and url:
        return
    from agentjobs_runtime.problems import Problem

    if not api_key:
        raise Problem(
            "no_api_key",
            f"{URL_VARIABLE} is set, but {KEY_VARIABLE} is not: set it to a key from "
            f"`agentjobs keys create`, or unset {URL_VARIABLE} to use a context.",
        )
    raise Problem(
        "no_service",
        f"{KEY_VARIABLE} is set, but {URL_VARIABLE} is not: set it to the address of the "
        f"service, such as http://…/v1, or unset {KEY_VARIABLE} to use a context.",
    )


def _missing_service_reason(has_contexts: bool) -> str:
    variables = f"set {URL_VARIABLE} and {KEY_VARIABLE}"
    if has_contexts:
        return f"No context is selected: run `agentjobs contexts use NAME`, or {variables}."
    return f"No service is known: run `agentjobs login`, or {variables}."


def _refused_key(connection: Connection) -> "Problem":
    from agentjobs_runtime.problems import Problem

    use = f"set {KEY_VARIABLE}" if connection.source == URL_VARIABLE else "run `agentjobs login`"
    return Problem(
        "unauthorized",
        f"{connection.url} refused the API key ({connection.source}): it is unknown, expired or "
        f"revoked. Create another with `agentjobs keys create` or in the dashboard, then {use}.",
    )
