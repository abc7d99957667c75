"""Which changes the service refuses: pure decisions on paths, modes and small blobs."""

from collections.abc import Iterable, Sequence

from agentjobs_runtime.git.trees import GITLINK, Change
from agentjobs_runtime.repo_files.patterns import (
    Names,
    Pattern,
    fold_name,
    fold_path,
    parse_patterns,
)
from agentjobs_runtime.repo_files.service_files import ServiceFile
from agentjobs_runtime.safe_text import escape_unprintable

# Wherever they are, but a directory of this name may contain anything.
PROTECTED_FILES = frozenset({"jenkinsfile", "codeowners"})
# CI definitions run with CI's secrets, and files of the service decide what the next job may do.
PROTECTED_PATTERNS = (
    ".github/workflows/**",
    ".github/actions/**",
    ".gitea/**",
    ".forgejo/**",
    "/.gitlab-ci.yml",
    ".gitlab/ci/**",
    "/bitbucket-pipelines.yml",
    ".buildkite/**",
    ".circleci/**",
    ".woodpecker/**",
    "/.woodpecker.yml",
    "/.drone.yml",
    "/.travis.yml",
    "/azure-pipelines.yml",
    # Also what devcontainer.json names, such as scripts of setup.
    ".devcontainer/**",
    *sorted(
        f"/{path}"
        for file in ServiceFile
        for path in file.value
        if path.rpartition("/")[2].lower() not in PROTECTED_FILES
    ),
)

MAX_LFS_POINTER_BYTES = 1_024
LFS_POINTER_STARTS = (
    b"version https://git-lfs.github.com/spec/",
    b"version https://hawser.github.com/",
)

MAX_SHOWN_PATHS = 10
MAX_SHOWN_CHARACTERS = 200


def is_git_directory_name(name: bytes) -> bool:
    """Whether some file system treats the name as `.git`."""
    # Called for every file of a tree: nearly all have another first byte, which is neither one of
    # these characters nor the start of an ignored code point.
    if name[:1] not in b".gG\xe2\xef":
        return False
    return fold_name(name).split(":")[0].rstrip(" .") in {".git", "git~1"}


def protected_paths(
    paths: Iterable[bytes], lifted: Sequence[Pattern] = (), executed: Sequence[Pattern] = ()
) -> list[bytes]:
    """The paths that the service protects by default, except those an admin lifted.

    `executed` are scripts that the service runs from this repository.
    """
    patterns = (*parse_patterns(PROTECTED_PATTERNS), *executed)
    return [
        path
        for path in paths
        if _is_protected(names := fold_path(path), patterns)
        and not any(pattern.matches(names) for pattern in lifted)
    ]


def paths_matching(paths: Iterable[bytes], patterns: Sequence[Pattern]) -> list[bytes]:
    """The paths that match, and those that replace a directory which contains matches."""
    return [path for path in paths if _covers(fold_path(path), patterns)]


def new_gitlinks(changes: Iterable[Change]) -> list[bytes]:
    return [change.path for change in changes if change.new_mode == GITLINK]


def is_lfs_pointer(blob: bytes) -> bool:
    return len(blob) < MAX_LFS_POINTER_BYTES and blob.startswith(LFS_POINTER_STARTS)


def format_paths(paths: Iterable[bytes]) -> str:
    """Paths for a message: printable, and limited in number."""
    all_paths = list(paths)
    texts = [printable_path(path) for path in all_paths[:MAX_SHOWN_PATHS]]
    if len(all_paths) > MAX_SHOWN_PATHS:
        texts.append(f"and {len(all_paths) - MAX_SHOWN_PATHS} more")
    return ", ".join(texts)


def _is_protected(names: Names, patterns: Sequence[Pattern]) -> bool:
    return names[-1] in PROTECTED_FILES or _covers(names, patterns)


def _covers(names: Names, patterns: Sequence[Pattern]) -> bool:
    return any(pattern.matches(names) or pattern.matches_within(names) for pattern in patterns)


def printable_path(path: bytes) -> str:
    text = escape_unprintable(path.decode("utf-8", "backslashreplace"))
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"
