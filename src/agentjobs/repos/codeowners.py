"""Who a repository's CODEOWNERS makes responsible for a change. Bounded: a stranger wrote it.

Patterns read as GitHub and GitLab read them: the last that matches counts, in GitLab the last of
each section. Gitea's are other patterns, and Gitea asks its code owners itself.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path

import msgspec

from agentjobs.git.blobs import blob_pieces, blob_sizes
from agentjobs.git.process import git
from agentjobs.git.trees import REGULAR, changes_between
from agentjobs.workspace.patterns import Names, Pattern, folded_names

MAX_BYTES = 256 * 1024
MAX_RULES = 2_000
MAX_PATHS = 1_000
MAX_OWNERS = 15
MAX_NAMES = 64
MAX_SECONDS = 2.0
_RULES_PER_CLOCK_READ = 16

_PLACES = {
    "github": (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"),
    "gitlab": ("CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"),
}
_SECTION = re.compile(r"\^?\[([^\]]+)\](?:\[\d+\])?\s*(.*)")
_OWNER = re.compile(r"@[A-Za-z0-9_][\w.-]*(?:/[\w.-]+)*")


class CostlyOwners(Exception):
    """A file so made that it would take too long to find out."""


class _Rule(msgspec.Struct, frozen=True):
    """`depth` is how many names a path must have; 0: any number."""

    section: str
    pattern: Pattern
    owners: tuple[str, ...]
    depth: int

    def matches(self, names: Names) -> bool:
        return self.depth in (0, len(names)) and self.pattern.matches(names)


async def owners_of_change(
    git_dir: Path, base: str, commit: str, platform: str, say: Callable[[str], None]
) -> tuple[str, ...]:
    """As the base has it; each as `@name` or `@owner/team`, who owns most of the change first."""
    text = await _read(git_dir, base, _PLACES.get(platform, ()))
    if not text:
        return ()
    changed = await changes_between(git_dir, base, commit)
    try:
        # Two thousand rules on a thousand paths take a while.
        paths = [change.path for change in changed[:MAX_PATHS]]
        return await asyncio.to_thread(owners_of, text, paths)
    except CostlyOwners:
        say("CODEOWNERS takes too long to work out: no code owner is asked")
        return ()


def owners_of(text: str, paths: Iterable[bytes]) -> tuple[str, ...]:
    # This thread's CPU time: on a busy server the wall clock would drop owners of ordinary files.
    ends_at = time.thread_time() + MAX_SECONDS
    rules = list(_rules(text))
    counted: dict[str, int] = {}
    for path in paths:
        names = folded_names(path)
        if len(names) > MAX_NAMES:
            continue
        last: dict[str, tuple[str, ...]] = {}
        for number, rule in enumerate(rules):
            if rule.matches(names):
                last[rule.section] = rule.owners
            if not number % _RULES_PER_CLOCK_READ and time.thread_time() > ends_at:
                raise CostlyOwners
        for owner in {owner for owners in last.values() for owner in owners}:
            counted[owner] = counted.get(owner, 0) + 1
    ordered = sorted(counted, key=lambda owner: (-counted[owner], owner))
    return tuple(ordered[:MAX_OWNERS])


async def _read(git_dir: Path, commit: str, places: tuple[str, ...]) -> str:
    if not places:
        return ""
    listed = await git("ls-tree", "-z", "--full-tree", commit, "--", *places, git_dir=git_dir)
    found = {}
    for record in listed.stdout.decode("utf-8", "replace").split("\0"):
        description, _, path = record.partition("\t")
        if path and description.split(" ")[0] in REGULAR:
            found[path] = description.split(" ")[2]
    blob = next((found[place] for place in places if place in found), None)
    if blob is None or (await blob_sizes(git_dir, [blob]))[0] > MAX_BYTES:
        return ""
    async with aclosing(blob_pieces(git_dir, [blob])) as pieces:
        return b"".join([piece async for piece, _ in pieces]).decode("utf-8", "replace")


def _rules(text: str) -> Iterator[_Rule]:
    section, default = "", _owners("")
    for line in text.splitlines()[:MAX_RULES]:
        words = line.partition(" #")[0].strip()
        if not words or words.startswith("#"):
            continue
        if heading := _SECTION.fullmatch(words):
            section, default = heading[1].casefold(), _owners(heading[2])
            continue
        # A blank in a path is written with a backslash.
        pattern, *rest = re.split(r"(?<!\\)\s+", words, maxsplit=1)
        owners = _owners(rest[0]) if rest else default
        # `docs/*` means the files right there, not those below its directories.
        depth = pattern.strip("/").count("/") + 1 if pattern.endswith("/*") else 0
        # What is no pattern is the platform's to tell.
        with contextlib.suppress(ValueError):
            yield _Rule(section, Pattern.parse(pattern.replace("\\ ", " ")), owners, depth)


def _owners(words: str) -> tuple[str, ...]:
    """Addresses of mail are left out: no platform finds people by them for everybody."""
    return tuple(word for word in words.split() if _OWNER.fullmatch(word))
