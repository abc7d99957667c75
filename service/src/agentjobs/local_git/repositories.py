"""Bare repositories of the platform `local`: their paths, importing and maintenance.

Knows git and directories, but no rows, organizations or pull requests.
"""

import asyncio
import dataclasses
import re
import shutil
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from agentjobs.local_git.fetch_errors import fetch_problem
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.git.process import GitError, git
from agentjobs_runtime.git.refs import HEADS, default_branch, list_branches
from agentjobs_runtime.git.remote import NETWORK_PROTOCOLS, Remote, parse_remote
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.safe_text import ellipsize

# Acknowledged data must survive a power failure; by default git does not sync loose objects.
DURABLE: Mapping[str, str] = {"core.fsync": "committed"}
_IMPORT_SECONDS = 3600.0
# About 200,000 branches and tags.
_MAX_REFS_BYTES = 16 * 1024**2
_UNUSABLE_REF = re.compile(rb"^.{1000,}$|^(?!commit )\w+ refs/heads/.*$", re.MULTILINE)
_SHA1_CHARACTERS = 40
# Longer than any change to a ref takes.
_LEFTOVER_SECONDS = 3600.0
_COMMON_BRANCHES = ("main", "master", "trunk", "develop")
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
# Serves a path that the operator may read whoever owns it.
_UPLOAD_PACK = "git -c safe.directory='*' upload-pack"


class ImportedRepository(msgspec.Struct, frozen=True):
    default_branch: str
    head_commit: str


def repository_name(repo_id: str) -> str:
    return f"{repo_id}.git"


def path(root: Path, repo_id: str) -> Path:
    return root / repository_name(repo_id)


def incoming_path(target: Path) -> Path:
    """Where a repository is created before it is moved to its path."""
    return target.with_name(f".incoming-{target.name}")


def present_path(root: Path, repo_id: str) -> Path:
    """The path. Raises Problem if the files are not on this host."""
    git_dir = path(root, repo_id)
    if not (git_dir / "HEAD").is_file():
        raise Problem(
            "unavailable",
            f"The repository's files are not in {root}; run this on the host of"
            " `agentjobs serve`, with its data directory or AGENTJOBS_REPOSITORIES_DIR.",
        )
    return git_dir


def remove_repository(root: Path, repo_id: str) -> None:
    """Blocking. Removes an unfinished import, too."""
    target = path(root, repo_id)
    for directory in (target, incoming_path(target)):
        remove(directory)


async def import_repository(
    source: str, target: Path, certificates: Path | None = None
) -> ImportedRepository:
    """Import branches and tags from a path or URL, without hooks and configuration.

    The repository appears completely or not at all. `certificates` is a file with the CAs that git
    trusts; None means the system's.
    """
    remote, protocols = _remote(source)
    remote = dataclasses.replace(remote, certificates=certificates)
    return await import_from(remote, target, protocols=protocols)


async def import_from(
    remote: Remote,
    target: Path,
    *,
    protocols: str = NETWORK_PROTOCOLS,
    configuration: Mapping[str, str] | None = None,
) -> ImportedRepository:
    async with _incoming(target) as incoming:
        await _clone(incoming, remote, protocols, configuration or {})
        await _check_refs(incoming, remote.url)
        branches = await list_branches(incoming)
        if not branches:
            raise Problem("repo_empty", f"{remote.url} has no commits; push a first commit.")
        branch = _choose_branch(await default_branch(incoming), branches)
        if len(branches[branch]) != _SHA1_CHARACTERS:
            message = f"{remote.url} uses SHA-256 object names; only repositories with SHA-1 work."
            raise Problem("repo_unavailable", message)
        await git("symbolic-ref", "HEAD", HEADS + branch, git_dir=incoming)
        await git("config", "--local", "--remove-section", "remote.origin", git_dir=incoming)
        incoming.rename(target)
    return ImportedRepository(branch, branches[branch])


@asynccontextmanager
async def _incoming(target: Path) -> AsyncIterator[Path]:
    incoming = incoming_path(target)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    await asyncio.to_thread(remove, incoming)
    try:
        yield incoming
    finally:
        await asyncio.to_thread(remove, incoming)


def _remote(source: str) -> tuple[Remote, str]:
    if source.startswith(("http://", "https://")):
        return parse_remote(source), NETWORK_PROTOCOLS
    if _URL.match(source):
        raise Problem("repo_unavailable", "A URL must start with http:// or https://.")
    directory = Path(source).expanduser().absolute()
    if not directory.is_dir():
        raise Problem(
            "repo_unavailable", f"{source} is not a directory; enter the path of a git repository."
        )
    if (directory / "shallow").is_file() or (directory / ".git" / "shallow").is_file():
        raise Problem(
            "repo_unavailable",
            f"{source} is a shallow clone; run `git fetch --unshallow` in it first.",
        )
    return Remote(str(directory)), "file"


async def _clone(
    incoming: Path, remote: Remote, protocols: str, configuration: Mapping[str, str]
) -> None:
    try:
        # Unlike a fetch, which takes minutes for 100,000 refs, it writes them to a single file.
        await git(
            "clone",
            "--quiet",
            "--bare",
            "--no-local",
            "--reject-shallow",
            "--template=",
            f"--upload-pack={_UPLOAD_PACK}",
            "--",
            remote.url,
            str(incoming),
            configuration={
                **DURABLE,
                "init.defaultBranch": "main",
                **configuration,
                **remote.configuration,
            },
            environment=remote.environment,
            protocols=protocols,
            timeout_seconds=_IMPORT_SECONDS,
        )
    except GitError as error:
        raise fetch_problem(remote.url, error) from None


async def _check_refs(incoming: Path, url: str) -> None:
    """Raises Problem for refs that a clone accepts, and that whoever reads them would not."""
    refs = incoming / "packed-refs"
    if refs.exists() and refs.stat().st_size > _MAX_REFS_BYTES:
        limit = f"{_MAX_REFS_BYTES // 1024**2} MiB"
        message = f"The names of the branches and tags of {url} have more than {limit};"
        raise Problem("repo_unavailable", f"{message} delete those that are not needed.")
    listed = await git("for-each-ref", "--format=%(objecttype) %(refname)", git_dir=incoming)
    if unusable := _UNUSABLE_REF.search(listed.stdout):
        name = unusable[0].decode("utf-8", "replace").partition(" ")[2]
        message = f"The ref {ellipsize(name, 100)} of {url} has a name that is too long, or is a"
        raise Problem("repo_unavailable", f"{message} branch without a commit; delete it.")


def _choose_branch(head: str | None, branches: dict[str, str]) -> str:
    candidates = (head, *_COMMON_BRANCHES)
    return next((name for name in candidates if name in branches), min(branches))


async def update_refs(git_dir: Path, lines: Iterable[str]) -> None:
    """Change all of them, or none. Raises GitError if one has moved."""
    await git(
        *("update-ref", "--no-deref", "--stdin"),
        git_dir=git_dir,
        input="".join(lines).encode(),
        configuration=DURABLE,
    )


async def pack_refs(git_dir: Path) -> None:
    """Move refs into one file, which git reads faster than a file for each."""
    await git("pack-refs", "--all", git_dir=git_dir, configuration=DURABLE)


def remove_leftovers(git_dir: Path) -> list[str]:
    """Blocking. Removes what a killed git left behind: lock files of refs, by which git refuses
    every later change, and unfinished packs. The caller holds the lease on the repository."""
    locks = [git_dir / "packed-refs.lock", git_dir / "HEAD.lock", *git_dir.glob("refs/**/*.lock")]
    packs = [*git_dir.glob("objects/tmp_objdir-*"), *git_dir.glob("objects/pack/tmp_*")]
    removed = []
    for path in (*locks, *packs):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - _LEFTOVER_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                removed.append(str(path.relative_to(git_dir)))
    return removed


async def collect_garbage(git_dir: Path) -> None:
    """Where git's own rules require it. It may run beside pushes: it changes no refs, and keeps
    objects that are new."""
    await git(
        "gc",
        "--auto",
        "--quiet",
        git_dir=git_dir,
        configuration={"gc.auto": "6700", "gc.packRefs": "false"},
        timeout_seconds=_IMPORT_SECONDS,
    )
