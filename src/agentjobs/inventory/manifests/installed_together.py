"""Finds the files that are installed or resolved together: named in one command of a Dockerfile, CI
or tox, included by each other, covered by one lock file, or members of one workspace.

Guesses from text and runs nothing. Every group is one installation, so a file may be in several.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice

from agentjobs.inventory.manifests.coverage import Layout
from agentjobs.inventory.manifests.kinds import kind_of
from agentjobs.inventory.model import ParsedManifest

MAX_GROUPS = 500
MAX_MEMBERS = 200
# Names that commands mention; a pattern counts once per file that it is compared with.
_MAX_NAMES = 1_000_000

_INSTALL_FILE = re.compile(
    r"(?:.*/)?(?:(?:Docker|Container|Make|Jenkins|just)file[^/]*|[^/]*\.[Dd]ockerfile|tox\.ini"
    r"|noxfile\.py|[^/]+\.sh|\.gitlab-ci\.yml|bitbucket-pipelines\.yml|azure-pipelines\.yml"
    r"|\.travis\.yml|\.drone\.yml|\.?appveyor\.yml)"
    r"|(?:\.github|\.gitea|\.forgejo|\.circleci|\.woodpecker)/.*\.ya?ml|\.woodpecker\.ya?ml"
)
_REQUIREMENTS_ENDINGS = (".txt", ".in")
# Lines that continue the previous one if they are indented.
_INDENTED_ENDINGS = (".ini", ".cfg", ".py")
_COMMENT_LINE = re.compile(r"^[ \t]*#.*\n", re.MULTILINE)
_INSTALLS = re.compile(r"\b(?:install|sync|compile|deps)\b|--requirement")
_SEPARATORS = re.compile(r"[\s\"'`=,;|&<>()\[\]{}]+")
_INCLUDE = re.compile(r"^[ \t]*(?:-r|-c|--requirement|--constraint)[ \t=]*([^\s#]+)", re.MULTILINE)

Group = tuple[str, ...]


def is_install_file(path: str) -> bool:
    """Whether the file may contain commands that install packages."""
    return len(path) < 1_000 and _INSTALL_FILE.fullmatch(path) is not None


def is_requirements_file(path: str) -> bool:
    """Whether pip may read it: also the input of pip-compile, and constraints."""
    if not path.endswith(_REQUIREMENTS_ENDINGS):
        return False
    stem = posixpath.splitext(path)[0]
    return "constraints" in posixpath.basename(stem) or kind_of(f"{stem}.txt") is not None


def find_installed_together(
    manifests: Mapping[str, ParsedManifest], texts: Mapping[str, str], paths: Iterable[str]
) -> tuple[Group, ...]:
    """`texts` are the install and requirements files, `paths` all files of the commit."""
    files = _RequirementsFiles(path for path in paths if path.endswith(_REQUIREMENTS_ENDINGS))
    includes = {
        path: files.includes_of(path, text) for path, text in texts.items() if path in files
    }
    groups = [
        *_covered_by_locks(manifests),
        *_compiled(files),
        *(_with_includes([path], includes) for path in sorted(includes)),
    ]
    for path in sorted(texts):
        if path not in files:
            groups += (
                _with_includes(named, includes) for named in files.named_in(path, texts[path])
            )
    return _maximal(groups)


class _RequirementsFiles:
    """All files of the commit that a command could name as requirements."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._sorted = sorted(paths)
        self._paths = frozenset(self._sorted)
        self._by_name: dict[str, list[str]] = {}
        for path in self._sorted:
            self._by_name.setdefault(posixpath.basename(path), []).append(path)
        self._remaining = _MAX_NAMES

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._sorted)

    def includes_of(self, path: str, text: str) -> list[str]:
        here = posixpath.dirname(path)
        named = (posixpath.normpath(posixpath.join(here, name)) for name in _INCLUDE.findall(text))
        return [name for name in islice(named, MAX_MEMBERS) if name in self._paths]

    def named_in(self, path: str, text: str) -> Iterator[list[str]]:
        """The requirements files that each command names."""
        here = posixpath.dirname(path)
        for command in _commands(path, text):
            if not _INSTALLS.search(command):
                continue
            tokens = (t for t in _SEPARATORS.split(command) if t.endswith(_REQUIREMENTS_ENDINGS))
            named = (name for token in tokens for name in self._find(here, token))
            yield list(dict.fromkeys(islice(named, MAX_MEMBERS)))

    def _find(self, here: str, token: str) -> Collection[str]:
        """Beside the file, below the root, or the only file with this name: a Dockerfile may have
        copied it elsewhere."""
        name = re.sub(r"^-[rc]", "", token)
        self._remaining -= len(self._sorted) if "*" in name else 1
        if self._remaining < 0:
            return ()
        if "*" in name:
            pattern = posixpath.normpath(name)
            return [path for path in self if fnmatchcase(path, pattern)]
        for directory in (here, ""):
            path = posixpath.normpath(posixpath.join(directory, name.lstrip("/")))
            if path in self._paths:
                return (path,)
        same_name = self._by_name.get(posixpath.basename(name), [])
        return same_name if len(same_name) == 1 else ()


def _commands(path: str, text: str) -> Iterator[str]:
    text = _COMMENT_LINE.sub("", text.replace("\r\n", "\n")).replace("\\\n", " ")
    if path.endswith(_INDENTED_ENDINGS):
        text = re.sub(r"\n(?=[ \t])", " ", text)
    yield from text.split("\n")


def _covered_by_locks(manifests: Mapping[str, ParsedManifest]) -> Iterator[list[str]]:
    layout = Layout(manifests)
    for coverage in layout.locks():
        yield [coverage.lock, *(path for paths in coverage.manifests.values() for path in paths)]
    yield from layout.workspaces()


def _compiled(files: _RequirementsFiles) -> Iterator[list[str]]:
    """A requirements file is beside the file that it was compiled from."""
    for path in files:
        compiled = f"{path.removesuffix('.in')}.txt"
        if path.endswith(".in") and compiled in files:
            yield [path, compiled]


def _with_includes(named: Iterable[str], includes: Mapping[str, list[str]]) -> list[str]:
    reached: dict[str, None] = {}
    waiting = list(named)
    while waiting and len(reached) < MAX_MEMBERS:
        path = waiting.pop()
        if path not in reached:
            reached[path] = None
            waiting += includes.get(path, ())
    return list(reached)


def _maximal(groups: Iterable[list[str]]) -> tuple[Group, ...]:
    """Each group of several files once, without those that another one contains."""
    distinct = {frozenset(group[:MAX_MEMBERS]) for group in groups}
    largest = sorted((group for group in distinct if len(group) > 1), key=len, reverse=True)
    kept: list[frozenset[str]] = []
    for group in largest[:MAX_GROUPS]:
        if not any(group <= other for other in kept):
            kept.append(group)
    return tuple(sorted(tuple(sorted(group)) for group in kept))
