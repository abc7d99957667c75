"""`agentjobs contexts`: the services that `agentjobs login` has stored."""

from typing import Annotated

import typer

from agentjobs.cli.contexts.connection import complete_context
from agentjobs.cli.options import Json
from agentjobs.cli.output import Answer, Table, print_answer

contexts = typer.Typer(
    no_args_is_help=True, help="List, select and remove the services of `agentjobs login`."
)

Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_context)]


@contexts.command("list")
def list_contexts(json: Json = False) -> None:
    """List the contexts, without their keys."""
    from agentjobs.cli.contexts.credentials import credentials_path, load_credentials

    credentials = load_credentials(credentials_path())
    rows = [
        {
            "name": context.name,
            "url": context.url,
            "ca_file": context.ca_file,
            "current": context.name == credentials.current,
        }
        for context in credentials.contexts.values()
    ]
    columns = ("name", "url", "current")
    cells = [[row[column] for column in columns] for row in rows]
    print_answer(Table({"contexts": rows}, columns, cells), json=json)


@contexts.command("use")
def use_context(name: Name, json: Json = False) -> None:
    """Make a context the one that commands use by default."""
    from agentjobs.cli.contexts.credentials import credentials_path, edit_credentials

    with edit_credentials(credentials_path()) as (credentials, store):
        context = credentials.find(name)
        store(credentials._replace(current=name))
    document = {"name": name, "url": context.url, "current": True}
    print_answer(Answer(document, [name], [f"Commands use {context.url}."]), json=json)


@contexts.command("remove")
def remove_context(name: Name, json: Json = False) -> None:
    """Delete a context and its key from this machine."""
    delete_context(name, json)


def delete_context(name: str | None, json: bool) -> None:
    """The current context if there is no name."""
    from agentjobs.cli.contexts.credentials import credentials_path, edit_credentials
    from agentjobs_runtime.problems import Problem

    with edit_credentials(credentials_path()) as (credentials, store):
        chosen = name or credentials.current
        if chosen is None:
            raise Problem("no_context", "No context is selected: see `agentjobs contexts list`.")
        context = credentials.find(chosen)
        store(credentials.without_context(chosen))
    note = (
        "Its key was deleted from this machine and remains valid: to end that, run "
        "`agentjobs keys revoke` on the server, or revoke it in the dashboard."
    )
    notes = [note]
    if chosen == credentials.current and len(credentials.contexts) > 1:
        notes.append("To select another context, run: agentjobs contexts use NAME")
    print_answer(Answer({"name": chosen, "url": context.url}, [chosen], notes), json=json)
