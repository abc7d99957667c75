"""A small repository with branches with pull requests, created with plain git.

`make_text` puts every text that others can write: as it is, or with something hostile in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.support.git_commands import commit_files, git_output

TextMaker = Callable[[str], str]


@dataclass(frozen=True)
class Repository:
    git_dir: Path
    commits: Mapping[str, str]
    branches: Mapping[str, str]


def plain_text(text: str) -> str:
    return text


def create_repository(
    directory: Path, make_text: TextMaker = plain_text, suffix: str = ""
) -> Repository:
    """main with two commits, and three branches from the first: one of them conflicts."""
    tree = directory / "tree"
    tree.mkdir(parents=True)
    git_output("init", "--quiet", "--initial-branch=main", cwd=tree)
    setting = msgspec.json.encode(make_text("make check")).decode()
    files = {
        "README.md": "# shop\n",
        "src/shop.py": "PRICE = 1\n\nTAX = 2\n",
        ".agentjobs.toml": f"verify = {setting}\n{setting} = 1\n",
    }
    commits = {"first": commit_files(tree, files, "first")}
    branches = {name: f"agentjobs/{name}{suffix}" for name in ("open", "draft", "conflicting")}
    changed = {
        "open": {
            "src/shop.py": f"PRICE = 3  # {make_text('dear')}\n\nTAX = 2\n",
            f"{make_text('notes').strip('/')}.py": f"{make_text('hello')}\n",
        },
        "draft": {"draft.txt": "later\n"},
        "conflicting": {"README.md": "# the shop\n"},
    }
    author = make_text("Ada").replace("<", "").replace(">", "").replace("\n", "")
    for name, contents in changed.items():
        git_output("checkout", "--quiet", "-b", branches[name], commits["first"], cwd=tree)
        commit_files(
            tree, contents, f"{make_text('Fix the price')}\n\n{make_text('It was wrong.')}"
        )
        git_output(
            *("commit", "--quiet", "--amend", "--no-edit"),
            f"--author={author} <ada@example.com>",
            cwd=tree,
        )
        commits[name] = git_output("rev-parse", "HEAD", cwd=tree)
    git_output("checkout", "--quiet", "main", cwd=tree)
    commits["main"] = commit_files(tree, {"README.md": "# my shop\n"}, "second")
    # One pack and no sample hooks: the repository is copied for every test.
    git_output(
        *("clone", "--quiet", "--bare", "--no-local", "--template="),
        *(str(tree), str(directory / "bare")),
        cwd=directory,
    )
    return Repository(directory / "bare", commits, branches)
