"""Asks the operator for the name of what a command destroys."""

import sys

import typer

from agentjobs.cli.output import print_note


def confirm_name(name: str, kind: str, effect: str) -> None:
    """`effect` says what the command does, such as "deletes all data of acme"."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"this {effect}; confirm it with --yes")
    print_note(f"This {effect}. It cannot be undone. Enter the name of the {kind} to confirm:")
    if sys.stdin.readline().strip() != name:
        raise typer.BadParameter("the name does not match, so nothing was changed")
