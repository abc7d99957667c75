"""Finds the files that are installed or resolved together: named in one command of a Dockerfile, CI
or tox, included by or compiled from each other, read by one project, covered by one lock file, or
members of one workspace.

Guesses from text and runs nothing. Every group is one installation, so a file may be in several.
"""

import posixpath
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice, product

from agentjobs_dependencies.coverage import Layout
from agentjobs_dependencies.formats.kinds import detect_kind
from agentjobs_dependencies.formats.pypi.project import PyProject, SetupCfg
from agentjobs_dependencies.formats.text import UnreadableManifest, parse_toml
from agentjobs_dependencies.model import ParsedManifest

MAX_GROUPS = 500
MAX_MEMBERS = 200
# Names that commands mention; a pattern counts once per file that it is compared with.
_MAX_NAMES = 1_000_000

_INSTALL_FILE = re.compile(
    r"(?:.*/)?(?:(?:Docker|Container|Make|Jenkins|just)file[^/]*|[^/]*\.[Dd]ockerfile|tox\.ini"
    r"|noxfile\.py|[^/]+\.sh|action\.ya?ml|(?:docker-)?compose[^/]*\.ya?ml|\.gitlab-ci\.yml|bitbucket-pipelines\.yml|azure-pipelines\.yml"
    r"|\.travis\.yml|\.drone\.yml|\.?appveyor\.yml)"
    r"|(?:\.github|\.gitea|\.forgejo|\.circleci|\.woodpecker)/.*\.ya?ml|\.woodpecker\.ya?ml"
)
_IMAGE_FILE = re.compile(
    r"(?:^|/)(?:(?:Docker|Container)file[^/]*|(?:docker-)?compose[^/]*\.ya?ml)$"
)
_ARGUMENT = re.compile(
    r"^[ \t-]*(?:(?:ARG|ENV)[ \t]+)?[\"']?(\w{1,100})[\"']?[ \t]*[:=][ \t]*[\"']?"
    r"([^\s\"'=:]{1,500}\.(?:txt|in))\b",
    re.MULTILINE,
)
_VARIABLE = re.compile(r"\$\{?(\w{1,100})\}?")
_MAX_VALUES = 8
_REQUIREMENTS_ENDINGS = (".txt", ".in")
# Lines that continue the previous one if they are indented.
_INDENTED_ENDINGS = (".ini", ".cfg", ".py")
_COMMENT_LINE = re.compile(r"^[ \t]*#.*\n", re.MULTILINE)
_INSTALLS = re.compile(r"\b(?:install|sync|compile|deps)\b|--requirement")
_SEPARATORS = re.compile(r"[\s\"'`=,;|&<>()\[\]{}]+")
_INCLUDE = re.compile(r"^[ \t]*(?:-r|-c|--requirement|--constraint)[ \t=]*([^\s#]+)", re.MULTILINE)
_PROJECT = "pyproject.toml"
_SETUP_CFG = "setup.cfg"
# Comments that pip-compile and uv write: their command, and what requires a package.
_COMPILED = re.compile(
    r"^[^\n#]{0,1000}#([^\n]{0,2000}(?:compile\b|-r |\()[^\n]{0,2000})", re.MULTILINE
)
_SOURCE = re.compile(r"(?<![^\s(=])[\w./-]{0,500}?(?:\.in|\bpyproject\.toml)(?![\w.-])")

Group = tuple[str, ...]


def is_install_file(path: str) -> bool:
    """Whether the file may name the files that are installed."""
    if posixpath.basename(path) in (_PROJECT, _SETUP_CFG):
        return detect_kind(path) is not None
    return len(path) < 1_000 and _INSTALL_FILE.fullmatch(path) is not None


def is_requirements_file(path: str) -> bool:
    """Whether pip may read it: also the input of pip-compile, and constraints."""
    if not path.endswith(_REQUIREMENTS_ENDINGS):
        return False
    stem = posixpath.splitext(path)[0]
    return "constraints" in posixpath.basename(stem) or detect_kind(f"{stem}.txt") is not None


def find_installed_together(
    manifests: Mapping[str, ParsedManifest], texts: Mapping[str, str], paths: Iterable[str]
) -> tuple[Group, ...]:
    """`texts` are the install and requirements files, `paths` all files of the commit."""
    files = _RequirementsFiles(path for path in paths if path.endswith(_REQUIREMENTS_ENDINGS))
    includes = {
        path: files.below(path, _INCLUDE.findall(text))
        for path, text in texts.items()
        if path in files
    }
    groups = [
        *_covered_by_locks(manifests),
        *(_with_includes(group, includes) for group in _compiled(files, texts)),
        *(_with_includes([path], includes) for path in sorted(includes)),
    ]
    arguments = _build_arguments(texts)
    for path in sorted(texts):
        if posixpath.basename(path) in (_PROJECT, _SETUP_CFG):
            named = _read_by_setuptools(path, texts[path], files)
        elif path not in files:
            named = files.named_in(path, texts[path], arguments)
        else:
            continue
        groups += (_with_includes(group, includes) for group in named)
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

    def below(self, path: str, names: Iterable[str]) -> list[str]:
        """The files that a file names, relative to its directory."""
        here = posixpath.dirname(path)
        named = (posixpath.normpath(posixpath.join(here, name)) for name in names)
        return [name for name in islice(named, MAX_MEMBERS) if name in self._paths]

    def named_in(
        self, path: str, text: str, arguments: Mapping[str, Collection[str]]
    ) -> Iterator[list[str]]:
        """The requirements files that each command names, with each value of build arguments."""
        here = posixpath.dirname(path)
        for command in _commands(path, text, arguments):
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


def _build_arguments(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Requirements files that Dockerfiles and compose files name as build arguments."""
    arguments: dict[str, list[str]] = {}
    for path in sorted(texts):
        if _IMAGE_FILE.search(path):
            for name, value in islice(_ARGUMENT.findall(texts[path]), MAX_MEMBERS):
                values = arguments.setdefault(name, [])
                if value not in values and len(values) < _MAX_VALUES:
                    values.append(value)
    return arguments


def _commands(path: str, text: str, arguments: Mapping[str, Collection[str]]) -> Iterator[str]:
    text = _COMMENT_LINE.sub("", text.replace("\r\n", "\n")).replace("\\\n", " ")
    if path.endswith(_INDENTED_ENDINGS):
        text = re.sub(r"\n(?=[ \t])", " ", text)
    for command in text.split("\n"):
        names = sorted({name for name in _VARIABLE.findall(command) if name in arguments})
        chosen = product(*(arguments[name] for name in names))
        for values in islice(chosen, _MAX_VALUES):
            yield _substitute(command, dict(zip(names, values, strict=True)))


def _substitute(command: str, values: Mapping[str, str]) -> str:
    return (
        _VARIABLE.sub(lambda match: values.get(match[1], match[0]), command) if values else command
    )


def _covered_by_locks(manifests: Mapping[str, ParsedManifest]) -> Iterator[list[str]]:
    layout = Layout(manifests)
    for coverage in layout.locks():
        yield [coverage.lock, *(path for paths in coverage.manifests.values() for path in paths)]
    yield from layout.workspaces()


def _compiled(files: _RequirementsFiles, texts: Mapping[str, str]) -> Iterator[list[str]]:
    """A requirements file is beside the file that it was compiled from, or names it."""
    for path in files:
        compiled = f"{path.removesuffix('.in')}.txt"
        if path.endswith(".in") and compiled in files:
            yield [path, compiled]
        comments = "\n".join(_COMPILED.findall(texts.get(path, "")))
        for name in dict.fromkeys(islice(_SOURCE.findall(comments), MAX_MEMBERS)):
            source = _find_above(path, name, files, texts)
            if source is not None and source != path:
                yield [path, source]


def _find_above(
    path: str, name: str, files: _RequirementsFiles, texts: Container[str]
) -> str | None:
    """The command ran in the directory of the file or above it."""
    directory = path
    while directory:
        directory = posixpath.dirname(directory)
        source = posixpath.normpath(posixpath.join(directory, name))
        if source in files or source in texts:
            return source
    return None


def _read_by_setuptools(path: str, text: str, files: _RequirementsFiles) -> Iterator[list[str]]:
    """Files from which setuptools takes the requirements of a project and of its extras."""
    content = text.encode("utf-8", "replace")
    try:
        if posixpath.basename(path) == _SETUP_CFG:
            names, *extras = SetupCfg(content).named_files
        elif "dynamic" in text:
            names, *extras = PyProject(parse_toml(content)).named_files
        else:
            return
    except UnreadableManifest:
        return
    base = [path, *files.below(path, names)]
    yield base
    for extra in extras:
        yield [*base, *files.below(path, extra)]


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
