"""Which scripts of the repository a setup command names.

Setup runs them with secrets, so agents cannot change them. Does not know what a program such as
make or npm runs in turn.
"""

import re
from itertools import pairwise

from agentjobs_runtime.sandboxes.directories import WORKSPACE

MAX_SCRIPTS = 100
_WORDS = re.compile(r"""[\n;&|(){}'"`]|[^\s;&|(){}<>'"`]+""")
_DIRECTORY = r"(?:\.?[\w@+-][\w.@+-]*/)"
_PATH = re.compile(rf"(?:\./|{WORKSPACE}/)?({_DIRECTORY}{{0,20}}[\w.@+-]*\w)")
_MAX_PATH_CHARACTERS = 250
_ENDINGS = (".sh", ".bash", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php")
# A command or a script follows these words, separators and assignments.
_BEFORE_SCRIPT = {
    *"\n;&|({'\"`.!",
    *("do", "else", "env", "exec", "nice", "source", "then", "time"),
    *("bash", "node", "perl", "php", "python", "python3", "ruby", "sh"),
}


def named_scripts(command: str) -> tuple[str, ...]:
    """Patterns for files that the command executes by their path, or that end like scripts."""
    words = ["\n", *_WORDS.findall(command.replace("\\\n", " "))]
    # After `cd`, a path is relative to some other directory.
    root = "**/" if {"cd", "pushd"}.intersection(words) else "/"
    scripts = dict.fromkeys(
        root + match[1]
        for before, word in pairwise(words)
        if len(word) <= _MAX_PATH_CHARACTERS
        and (match := _PATH.fullmatch(word))
        and (word.endswith(_ENDINGS) or ("/" in word and _precedes_script(before)))
    )
    return tuple(scripts)[:MAX_SCRIPTS]


def _precedes_script(word: str) -> bool:
    return word in _BEFORE_SCRIPT or "=" in word
