"""Which files of a tree become part of a snapshot."""

import os
import subprocess
from pathlib import Path

import pytest

from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_worker.environments import ignored_files
from agentjobs_worker.workspace.checkout import Checkout
from tests.support.service import git, sample_repository


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A tree whose commit ignores `*.log`, and its index."""
    source = sample_repository(tmp_path / "source", {".gitignore": "*.log\n", "app.py": "x = 1\n"})
    tree = tmp_path / "tree"
    subprocess.run(["cp", "-a", source, tree], check=True)
    (tmp_path / "target").mkdir()
    index = tmp_path / "index"
    index.write_bytes((source / ".git" / "index").read_bytes())
    return Checkout(tree, git(source, "rev-parse", "HEAD").strip(), index, 0)


async def move(checkout: Checkout) -> list[str]:
    base = checkout.tree.parent
    await ignored_files.move_ignored_files(base / "source" / ".git", checkout, base / "target")
    files = (path for path in (base / "target").rglob("*") if not path.is_dir())
    return sorted(str(path.relative_to(base / "target")) for path in files)


def write(tree: Path, *names: str, text: str = "") -> None:
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)


async def test_a_directory_that_ignores_itself_is_kept_whole(checkout: Checkout) -> None:
    write(checkout.tree, "new.py", "build.log", ".venv/bin/python", "docs/x.log")
    write(checkout.tree, ".venv/.gitignore", text="*\n")
    assert await move(checkout) == [
        ".venv/.gitignore",
        ".venv/bin/python",
        "build.log",
        "docs/x.log",
    ]


async def test_rules_that_setup_changed_have_no_effect(checkout: Checkout) -> None:
    write(checkout.tree, "new.py", "app/x.o", "build.log")
    write(checkout.tree, ".gitignore", "app/.gitignore", text="*.py\n*.o\n")
    assert await move(checkout) == ["build.log"]


async def test_a_file_of_rules_that_nobody_writes_to_does_not_hold_up_the_worker(
    checkout: Checkout,
) -> None:
    write(checkout.tree, "app/build.log")
    os.mkfifo(checkout.tree / "app/.gitignore")
    assert await move(checkout) == ["app/build.log"]


async def test_rules_that_hide_one_another_without_end_are_refused(checkout: Checkout) -> None:
    directory = checkout.tree / "d"
    for _ in range(20):
        write(directory, ".gitignore", text="/d/.gitignore\n")
        directory /= "d"
    with pytest.raises(EnvironmentFailed, match=r"too many files `\.gitignore`"):
        await move(checkout)


async def test_too_many_ignored_files_outside_of_ignored_directories_are_refused(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignored_files, "MAX_PATHS", 3)
    write(checkout.tree, *(f"{number}.log" for number in range(4)))
    with pytest.raises(EnvironmentFailed, match="more than 3 ignored files outside of ignored"):
        await move(checkout)
