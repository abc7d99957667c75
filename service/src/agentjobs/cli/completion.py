"""`agentjobs completion`: scripts with which a shell completes commands, options and names."""

from enum import Enum
from typing import Annotated

import typer

from agentjobs.cli.commands import COMPLETION_VARIABLE, PROGRAM
from agentjobs.cli.output import print_result


class Shell(Enum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish")]) -> None:
    """Print a script that completes commands and options in your shell.

    bash: add `source <(agentjobs completion bash)` to ~/.bashrc.

    zsh: add `source <(agentjobs completion zsh)` to ~/.zshrc, after `compinit`.

    fish: agentjobs completion fish > ~/.config/fish/completions/agentjobs.fish
    """
    from typer._completion_shared import get_completion_script

    print_result(
        get_completion_script(
            prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=shell.value
        )
    )
