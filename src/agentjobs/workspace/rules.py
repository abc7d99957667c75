"""Which changes the service does not propose: pure decisions over paths, modes and small blobs."""

from collections.abc import Iterable

from agentjobs.git.trees import GITLINK, Change

PROTECTED_DIRECTORIES = (
    (".github", "workflows"),
    (".github", "actions"),
    (".gitea",),
    (".forgejo",),
)
PROTECTED_ROOT_FILES = frozenset({".gitlab-ci.yml", "bitbucket-pipelines.yml", ".agentjobs.toml"})
PROTECTED_FILES = frozenset({"jenkinsfile", "codeowners"})

LFS_POINTER_LIMIT_BYTES = 1_024
LFS_POINTER_STARTS = (
    b"version https://git-lfs.github.com/spec/",
    b"version https://hawser.github.com/",
)

SHOWN_PATHS = 10
SHOWN_PATH_LENGTH = 200

# Code points that HFS+ drops from names, so that `.g<U+200C>it` is `.git` there.
_IGNORED_IN_NAMES = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)


def is_git_directory_name(name: bytes) -> bool:
    """Whether some file system takes the name for `.git`."""
    # Asked of every file of a tree: nearly all are answered by their first byte, which
    # is none of these marks and not the start of an ignored code point either.
    if name[:1] not in b".gG\xe2\xef":
        return False
    return _folded(name).split(":")[0].rstrip(" .") in {".git", "git~1"}


def protected_paths(paths: Iterable[bytes]) -> list[bytes]:
    return [path for path in paths if _is_protected(path)]


def new_gitlinks(changes: Iterable[Change]) -> list[bytes]:
    return [change.path for change in changes if change.new_mode == GITLINK]


def is_lfs_pointer(blob: bytes) -> bool:
    return len(blob) < LFS_POINTER_LIMIT_BYTES and blob.startswith(LFS_POINTER_STARTS)


def shown(paths: Iterable[bytes]) -> str:
    """Paths for a message: printable whatever their bytes are, and not too many."""
    every = list(paths)
    texts = [_printable(path) for path in every[:SHOWN_PATHS]]
    if len(every) > SHOWN_PATHS:
        texts.append(f"and {len(every) - SHOWN_PATHS} more")
    return ", ".join(texts)


def _is_protected(path: bytes) -> bool:
    parts = tuple(_folded(part).rstrip(" .") for part in path.split(b"/"))
    if parts[-1] in PROTECTED_FILES or (len(parts) == 1 and parts[0] in PROTECTED_ROOT_FILES):
        return True
    # Either inside a protected directory, or a link or file put in place of one of its parents.
    return any(
        parts[: len(directory)] == directory[: len(parts)] for directory in PROTECTED_DIRECTORIES
    )


def _folded(name: bytes) -> str:
    return name.decode("utf-8", "replace").translate(_IGNORED_IN_NAMES).casefold()


def _printable(path: bytes) -> str:
    text = path.decode("utf-8", "backslashreplace")
    text = "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in text)
    return text if len(text) <= SHOWN_PATH_LENGTH else f"{text[:SHOWN_PATH_LENGTH]}…"
