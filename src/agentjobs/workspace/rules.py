"""Which changes the service does not propose: pure decisions over paths, modes and small blobs."""

from collections.abc import Iterable, Sequence

from agentjobs.git.trees import GITLINK, Change
from agentjobs.safe_text import escape_unprintable
from agentjobs.workspace.patterns import Names, Pattern, folded, folded_names, parse_patterns

# CI definitions run with CI's secrets, and this file decides what the next job may do.
PROTECTED_PATTERNS = (
    ".github/workflows/**",
    ".github/actions/**",
    ".gitea/**",
    ".forgejo/**",
    "/.gitlab-ci.yml",
    "/bitbucket-pipelines.yml",
    "/.agentjobs.toml",
)
# Not patterns: a directory of this name holds whatever it likes.
PROTECTED_FILES = frozenset({"jenkinsfile", "codeowners"})

LFS_POINTER_LIMIT_BYTES = 1_024
LFS_POINTER_STARTS = (
    b"version https://git-lfs.github.com/spec/",
    b"version https://hawser.github.com/",
)

SHOWN_PATHS = 10
SHOWN_PATH_LENGTH = 200


def is_git_directory_name(name: bytes) -> bool:
    """Whether some file system takes the name for `.git`."""
    # Asked of every file of a tree: nearly all are answered by their first byte, which
    # is none of these marks and not the start of an ignored code point either.
    if name[:1] not in b".gG\xe2\xef":
        return False
    return folded(name).split(":")[0].rstrip(" .") in {".git", "git~1"}


def protected_paths(paths: Iterable[bytes], lifted: Sequence[Pattern] = ()) -> list[bytes]:
    """Those the service itself protects, but for what an administrator lifted."""
    patterns = parse_patterns(PROTECTED_PATTERNS)
    return [
        path
        for path in paths
        if _is_protected(names := folded_names(path), patterns)
        and not any(pattern.matches(names) for pattern in lifted)
    ]


def paths_matching(paths: Iterable[bytes], patterns: Sequence[Pattern]) -> list[bytes]:
    """Those that match, and those put in place of a directory that holds what matches."""
    return [path for path in paths if _covers(folded_names(path), patterns)]


def new_gitlinks(changes: Iterable[Change]) -> list[bytes]:
    return [change.path for change in changes if change.new_mode == GITLINK]


def is_lfs_pointer(blob: bytes) -> bool:
    return len(blob) < LFS_POINTER_LIMIT_BYTES and blob.startswith(LFS_POINTER_STARTS)


def shown(paths: Iterable[bytes]) -> str:
    """Paths for a message: printable whatever their bytes are, and not too many."""
    every = list(paths)
    texts = [printable(path) for path in every[:SHOWN_PATHS]]
    if len(every) > SHOWN_PATHS:
        texts.append(f"and {len(every) - SHOWN_PATHS} more")
    return ", ".join(texts)


def _is_protected(names: Names, patterns: Sequence[Pattern]) -> bool:
    return names[-1] in PROTECTED_FILES or _covers(names, patterns)


def _covers(names: Names, patterns: Sequence[Pattern]) -> bool:
    return any(pattern.matches(names) or pattern.matches_within(names) for pattern in patterns)


def printable(path: bytes) -> str:
    text = escape_unprintable(path.decode("utf-8", "backslashreplace"))
    return text if len(text) <= SHOWN_PATH_LENGTH else f"{text[:SHOWN_PATH_LENGTH]}…"
