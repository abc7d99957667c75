"""A call imports only what it needs, and help and values are the same as if it imported all."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
import typer.core
import typer.main
from typer._coercion import build_runtime_param

from agentjobs.cli.commands import COMMANDS, load_command
from agentjobs.cli.plain_values import PlainValue

# Prints the modules that a call of the command line imports, after whatever the call prints.
_MODULES = """
import sys
from agentjobs.cli.entry import main
try:
    main()
except SystemExit:
    print(*sys.modules, sep="\\n")
"""
# Each costs a short command more than its own work.
_SLOW = {
    "asyncio",
    "httpx",
    "lightkube",
    "pydantic",
    "rich",
    "sqlite3",
    "uvicorn",
    "agentjobs_runtime.settings",
}


def imported_by(*arguments: str, **variables: str) -> set[str]:
    program = (sys.executable, "-c", _MODULES, *arguments)
    environment = {**os.environ, **variables}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_command_says(name):
    command = load_command(name)
    assert command.name == name
    assert command.get_short_help_str(200) == COMMANDS[name].summary


def test_the_version_and_help_need_no_command():
    for arguments in (("--version",), ("--help",)):
        imported = imported_by(*arguments)
        assert not imported & _SLOW
        assert not {f"agentjobs.cli.{name}" for name in COMMANDS} & imported


def test_a_noun_needs_no_other_noun():
    imported = imported_by("jobs", "--help")
    assert not imported & _SLOW
    nouns = {f"agentjobs.cli.{name}" for name in COMMANDS} - {"agentjobs.cli.contexts"}
    assert nouns & imported == {"agentjobs.cli.jobs"}


def test_ordinary_options_are_parsed_without_pydantic():
    assert "pydantic" not in imported_by("jobs", "list", "--repo", "acme/shop", "--limit", "3")


def test_a_client_imports_neither_asyncio_nor_the_command_line_of_httpx():
    variables = {"AGENTJOBS_URL": "not an address", "AGENTJOBS_API_KEY": "ajk_x"}
    imported = imported_by("jobs", "list", **variables)
    assert "httpx" in imported
    assert not imported & {"asyncio", "rich", "pygments", "pydantic"}


def command(
    text: Annotated[str, typer.Argument()],
    path: Annotated[Path | None, typer.Option()] = None,
    labels: Annotated[list[str] | None, typer.Option("--label")] = None,
    limit: Annotated[int, typer.Option(min=1, max=9)] = 3,
    cost: Annotated[float, typer.Option()] = 0.5,
    dry: Annotated[bool, typer.Option("--dry")] = False,
) -> None: ...


@pytest.mark.parametrize(
    "arguments",
    [
        ("a",),
        ("", "--path", "b/../c", "--label", "x=1", "--label", ""),
        ("é", "--limit", "9", "--cost", "1e3", "--dry"),
        ("a", "--path", ""),
        *(("a", "--limit", text) for text in ("0", "10", "x", "-1", "1.5", "٣", " 4 ", "0x1", "")),
        ("a", "--limit", "1" * 5_000),
        ("a", "--cost", "x"),
        (),
    ],
)
def test_values_are_converted_as_typer_converts_them(monkeypatch, arguments):
    assert parse(arguments, monkeypatch, PlainValue) == parse(
        arguments, monkeypatch, build_runtime_param
    )


def parse(arguments, monkeypatch, convert) -> object:
    monkeypatch.setattr(typer.core, "build_runtime_param", convert)
    app = typer.Typer(add_completion=False)
    app.command()(command)
    try:
        return typer.main.get_command(app).make_context("command", list(arguments)).params
    except typer.TyperException as error:
        return error.format_message()
