"""Repositories to index: generated ones, or those named by the environment.

`AGENTJOBS_BENCH_REPOSITORIES` is a list of git directories, separated by colons; their HEAD is
used.
"""

import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SIZES = {"made, 7,000 files": 7_000, "made, 27,000 files": 27_000}


@dataclass(frozen=True)
class Subject:
    """A bare repository and its head."""

    name: str
    git_dir: Path
    head: str


def subjects(root: Path) -> Iterator[Subject]:
    named = os.environ.get("AGENTJOBS_BENCH_REPOSITORIES", "")
    for number, path in enumerate(filter(None, named.split(":"))):
        git_dir = root / f"named-{number}.git"
        _git(root, "clone", "--quiet", "--bare", "--shared", path, str(git_dir))
        _git(git_dir, "update-ref", "refs/heads/main", "HEAD")
        yield Subject(path, git_dir, _git(git_dir, "rev-parse", "HEAD").strip())
    for name, files in SIZES.items() if not named else ():
        git_dir = root / f"made-{files}.git"
        _git(root, "init", "--quiet", "--bare", "-b", "main", str(git_dir))
        _git(git_dir, "fast-import", "--quiet", given=_history(files))
        _git(git_dir, "gc", "--quiet")
        yield Subject(name, git_dir, _git(git_dir, "rev-parse", "HEAD").strip())


def files_of(git_dir: Path, commit: str) -> list[tuple[str, str]]:
    """Blob and path of every regular file."""
    listing = _git(git_dir, "ls-tree", "-r", "-z", commit).split("\0")
    entries = (record.split("\t", 1) for record in listing if record.startswith("100"))
    return [(about.split()[2], path) for about, path in entries]


def _history(files: int) -> bytes:
    """One commit with packages that import each other, and the same amount of data."""
    chance = random.Random(files)
    words = [f"name_{number}" for number in range(2_000)]
    parts = [b"commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 1\nx\n"]
    for number in range(files):
        name = f"shop/part_{number % 700}/module_{number}"
        if number % 3:
            name, text = f"{name}.py", _source(number, files, chance, words)
        else:
            name, text = f"{name}.json", _data(chance, words)
        content = text.encode()
        parts.append(b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(content), content))
    return b"".join(parts)


def _source(number: int, files: int, chance: random.Random, words: list[str]) -> str:
    others = [chance.randrange(files) for _ in range(6)]
    imports = [f"from shop.part_{at % 700} import module_{at}\n" for at in others]
    lines = [
        f"    {a} = call({b!r}, {c}) if {a} else None\n"
        for a, b, c in zip(*[iter(chance.choices(words, k=3 * _lines(chance)))] * 3, strict=True)
    ]
    head = f'"""Module {number}."""\n\nimport os\nimport re\n'
    return head + "".join(imports) + "\n\ndef work():\n" + "".join(lines)


def _data(chance: random.Random, words: list[str]) -> str:
    pairs = chance.choices(words, k=2 * _lines(chance))
    lines = (f'  "{a}": "{b}",\n' for a, b in zip(*[iter(pairs)] * 2, strict=True))
    return "{\n" + "".join(lines) + '  "end": 0\n}\n'


def _lines(chance: random.Random) -> int:
    return min(int(chance.lognormvariate(4.2, 1.1)), 4_000) + 1


def _git(directory: Path, *arguments: str, given: bytes = b"") -> str:
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", *arguments],
        cwd=directory,
        input=given,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode("utf-8", "surrogateescape")
