"""`agentjobs login` and `logout`: store the address of a service and an API key for it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.contexts.commands import delete_context
from agentjobs.cli.contexts.connection import (
    CA_FILE_VARIABLE,
    KEY_VARIABLE,
    URL_VARIABLE,
    Connection,
    ContextName,
    explain_errors,
    open_client,
)
from agentjobs.cli.options import Json
from agentjobs.cli.output import Answer, print_answer, print_note

if TYPE_CHECKING:
    from urllib.parse import SplitResult

DEFAULT_URL = "http://127.0.0.1:8080"


def login(
    url: Annotated[
        str | None,
        typer.Argument(metavar="[URL]", help="Address of the service; asked for if absent."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of the context (default: the host)."),
    ] = None,
    key_file: Annotated[
        str | None,
        typer.Option("--key-file", metavar="FILE", help="File with the API key; - for stdin."),
    ] = None,
    ca_file: Annotated[
        str | None,
        typer.Option(
            "--ca-file",
            metavar="FILE",
            help="Certificates (PEM) of your own authority; by default AGENTJOBS_CA_FILE.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Store the address of a service and an API key, and use them by default.

    The key is read from stdin if it is a pipe or a file, then from AGENTJOBS_API_KEY, or asked for.
    """
    from agentjobs.cli.contexts.address import check_address
    from agentjobs.cli.contexts.credentials import (
        Context,
        check_name,
        credentials_path,
        edit_credentials,
    )

    address = check_address(url or _ask_for_url())
    context_name = check_name(name or address.netloc)
    api_key = _read_key(key_file)
    certificates = _certificates(ca_file, address)
    connection = Connection(address.geturl(), api_key, "the key that was given", certificates)
    with explain_errors(connection), open_client(connection) as client:
        caller = client.me()
    context = Context(context_name, connection.url, api_key, certificates)
    with edit_credentials(credentials_path()) as (credentials, store):
        store(credentials.with_context(context))
    print_answer(_answer(context_name, address, caller.organization.name), json=json)


def logout(context: ContextName = None, json: Json = False) -> None:
    """Delete the current context and its key from this machine."""
    delete_context(context, json)


def _ask_for_url() -> str:
    from agentjobs_runtime.problems import Problem

    if sys.stdin is None or not sys.stdin.isatty():
        raise Problem("no_service", "Say which service: agentjobs login URL")
    sys.stderr.write(f"Address of the service [{DEFAULT_URL}]: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip() or DEFAULT_URL


def _read_key(key_file: str | None) -> str:
    from agentjobs.cli.credential_input import read_key_file, read_piped_token, read_token
    from agentjobs_runtime.problems import Problem

    if key_file is not None:
        api_key = read_key_file(key_file).strip()
    elif KEY_VARIABLE in os.environ:
        api_key = read_piped_token() or _key_of_environment()
    else:
        api_key = read_token("API key (from `agentjobs keys create` or the dashboard)")
    if not api_key:
        raise Problem(
            "no_api_key", "The API key is empty: create one with `agentjobs keys create`."
        )
    return api_key


def _certificates(ca_file: str | None, address: "SplitResult") -> str | None:
    """The absolute path, because later commands run elsewhere."""
    file = ca_file or os.environ.get(CA_FILE_VARIABLE)
    return str(Path(file).absolute()) if file and address.scheme == "https" else None


def _key_of_environment() -> str:
    print_note(f"Using the key of {KEY_VARIABLE}.")
    return os.environ[KEY_VARIABLE].strip()


def _answer(name: str, address: "SplitResult", organization: str) -> Answer:
    from agentjobs.cli.contexts.address import is_unencrypted

    url = address.geturl()
    remarks = []
    if is_unencrypted(address):
        remarks.append("Warning: without https, others on the network can read the key.")
    if URL_VARIABLE in os.environ:
        remarks.append(f"As long as {URL_VARIABLE} is set, commands use it instead.")
    document = {"name": name, "url": url, "organization": organization}
    note = f"Commands now use {url} (organization {organization})."
    return Answer(document, [name], [note], remarks)
