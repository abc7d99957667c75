"""Runs commands of `agentjobs` in the process of the tests."""

import os
import sys
from pathlib import Path

import pytest
import typer.main

from agentjobs.cli.main import main
from tests.support import preloaded_cli
from tests.support.cli_process import CommandLine, CommandResult, is_setting


class InProcessCommandLine(CommandLine):
    """The same commands in this process: starting Python takes most of a command's time."""

    def __init__(self, capsys: pytest.CaptureFixture[str], data_dir: Path, **settings: str) -> None:
        super().__init__(data_dir, **settings)
        self._capsys = capsys

    def __call__(self, *arguments: str) -> CommandResult:
        self._capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            for name in filter(is_setting, list(os.environ)):
                patch.delenv(name)
            for name, text in self.settings.items():
                patch.setenv(name, text)
            patch.setattr(typer.main, "get_command", preloaded_cli.get_command)
            patch.setattr(sys, "argv", ["agentjobs", *arguments])
            with pytest.raises(SystemExit) as exited:
                main()
        captured = self._capsys.readouterr()
        return CommandResult(int(exited.value.code or 0), captured.out, captured.err)
