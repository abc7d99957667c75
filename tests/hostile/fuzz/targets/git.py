"""Targets: what git clients push, and what git prints about untrusted repositories."""

import gzip
from collections.abc import AsyncIterator

from hypothesis import strategies as st

from agentjobs.local_git.patch import parse_diff
from agentjobs.repos.codeowners import CodeOwnersTimeout, find_owners
from agentjobs.web.git.body import gunzip, limit_size
from agentjobs.web.git.push_commands import (
    MalformedOpening,
    OpeningParser,
    PushOpening,
    pkt_line,
    rejection_report,
)
from agentjobs_runtime.git.blobs import split_batch
from agentjobs_runtime.git.trees import _change, _entry
from agentjobs_runtime.mirrors.push_refusals import (
    MAX_MESSAGE_LENGTH,
    explain_refusal,
    explain_size,
)
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.repo_files.patterns import Pattern, fold_path
from tests.hostile.fuzz.documents import TOKENS, Inputs, documents, texts
from tests.hostile.fuzz.feeding import run_coroutine, split_bytes
from tests.hostile.fuzz.target import Target
from tests.support.forge_servers import push_refusals

_OID, _ZERO = b"1" * 40, b"0" * 40
_MAX_UNPACKED = 4 * 1024 * 1024


_PUSH = (
    pkt_line(_ZERO + b" " + _OID + b" refs/heads/main\0 report-status side-band-64k agent=git/2")
    + pkt_line(_OID + b" " + _ZERO + b" refs/heads/caf\xc3\xa9\n")
    + b"0000PACK\0\0\0\2"
)
_SHALLOW_PUSH = pkt_line(b"shallow " + _OID + b"\n") + _PUSH


def _parse_push(data: bytes) -> object:
    parser = OpeningParser()
    opening: PushOpening | None = None
    for piece in split_bytes(data):
        opening = parser.feed(piece)
        if opening is not None:
            break
    try:
        whole = OpeningParser().feed(data)
    except MalformedOpening:
        # The pieces may end before the malformed part.
        whole = None
    if opening is not None and whole is not None:
        assert (opening.updates, opening.capabilities) == (whole.updates, whole.capabilities)
    if opening is not None:
        report = rejection_report(opening, {update.name: "no" for update in opening.updates})
        return opening.updates, opening.capabilities, report
    return None


async def _gunzip(data: bytes) -> int:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in split_bytes(data):
            yield piece

    total = 0
    async for piece in limit_size(_MAX_UNPACKED, gunzip(pieces())):
        assert len(piece) <= 64 * 1024
        total += len(piece)
    return total


def _parse_batch(data: bytes) -> None:
    """The framing is git's; only the content is untrusted."""
    blobs = data.split(b"|")
    output = b"".join(b"%s blob %d\n%s\n" % (_OID, len(blob), blob) for blob in blobs)
    assert list(split_batch(output)) == blobs


def _parse_names(data: bytes) -> None:
    name = data.replace(b"\0", b"")
    assert _entry(b"100644 blob " + _OID + b"      12\t" + name).path == name
    raw = b":100644 000000 %s %s D" % (_OID, _ZERO)
    assert _change(raw, name).path == name


def _diff_output(names: list[bytes], content: bytes, end: int) -> tuple[bytes, bool]:
    """`git diff-tree --raw --numstat -p -z` of files with these names, cut off at `end`."""
    plain = [name.replace(b"\0", b"") or b"a" for name in names]
    raw, counts, patch = [], [], []
    for index, name in enumerate(plain):
        is_rename = index % 3 == 2
        status = b"R100" if is_rename else b"M"
        raw.append(b":100644 100644 %s %s %s\0%s\0" % (_OID, _OID, status, name))
        raw.append(name + b"2\0" if is_rename else b"")
        renamed = b"\0%s\0%s2\0" % (name, name)
        counts.append(b"1\t2\t" + (renamed if is_rename else name + b"\0"))
        lines = b"".join(b"+%s\n" % line for line in content.split(b"\n"))
        patch.append(b'diff --git "a/x" "b/x"\nindex 1..2\n--- a\n+++ b\n@@ -1 +1,2 @@\n' + lines)
    output = b"".join([*raw, *counts, b"\0", *patch])
    return output[:end], end >= len(output)


def _parse_diff(value: tuple[list[bytes], bytes, int]) -> object:
    output, complete = _diff_output(*value)
    diff = parse_diff(output, complete=complete)
    if complete:
        assert diff.changed_files == len(value[0])
    return diff


def _match_pattern(text: str) -> None:
    pattern = Pattern.parse(text)
    for path in (text.encode("utf-8", "replace"), b"a/b/c.py", b"a" * 200, b"docs/" + b"ab" * 120):
        pattern.matches(fold_path(path))
        pattern.matches_within(fold_path(path))


_NAMES = documents(b"src/a.py", b":a\tb", b'"a\\n"', b"\xff\n")
_CONTENTS = documents(b"a\n@@ -1 +1 @@\n\\ No", b"")
_MAX_END = 30_000
_DIFFS = Inputs(
    st.tuples(
        st.lists(_NAMES.strategy, min_size=1, max_size=6),
        _CONTENTS.strategy,
        st.integers(0, _MAX_END),
    ),
    lambda random: (
        [_NAMES.sample(random) for _ in range(random.randint(1, 6))],
        _CONTENTS.sample(random),
        random.randrange(_MAX_END),
    ),
)

_SECRET = "".join(f"remote: {line}\n" for line in push_refusals.GITHUB_SECRET.splitlines())
_RULE = f"remote: {push_refusals.GITLAB_EMAIL_RULE}"


def _explain_refusal(text: str) -> object:
    explain_size(text)
    message = explain_refusal(f"!\tx\t{text}", text).message
    assert len(message) <= MAX_MESSAGE_LENGTH
    return message


TARGETS = (
    Target(
        "refusal of a push",
        texts(_SECRET, _RULE, tokens=["remote: ", "—— ", "path: a:1", "GH013", "author", "-- "]),
        _explain_refusal,
        frames=("{}", "remote: {}", "remote: —— {}", "remote: -- {}"),
        units=("author ", "remote: author\n", "remote: -- a:1 ", "—— a ", "exceed the "),
        is_text=True,
    ),
    Target(
        "push commands",
        documents(_PUSH, _SHALLOW_PUSH, b"0000", tokens=[b"0000", b"0004", b"0005a", b"ffff"]),
        _parse_push,
        (MalformedOpening,),
        frames=("{}", "0000{}", _PUSH[:100].decode() + "{}"),
        units=("0005a", "0001", pkt_line(b"shallow " + _OID + b"\n").decode()),
    ),
    Target(
        "gzip of a push",
        documents(gzip.compress(_PUSH * 50), gzip.compress(b"\0" * 100_000), b"\x1f\x8b\x08"),
        lambda data: run_coroutine(_gunzip(data)),
        (Problem,),
        bounds_output=False,
    ),
    Target(
        "blobs of cat-file", documents(b"a\nb|c|", b"| blob 3\nabc\n", *TOKENS[:8]), _parse_batch
    ),
    Target("names in a tree", documents(b"src/a.py", b"\t\n\xff", b":a b"), _parse_names),
    Target(
        "diff",
        _DIFFS,
        _parse_diff,
        frames=(),
    ),
    Target(
        "path pattern",
        texts(
            "docs/**/*.md", "/a/[a-z]?/b*", "*.lock", "**/x/", tokens=["[!", "[^", "[z-a]", "**"]
        ),
        _match_pattern,
        (ValueError,),
        units=("*a", "?", "[a", "**/", "/*"),
        is_text=True,
    ),
    Target(
        "CODEOWNERS",
        texts(
            "* @ada\n/docs/ @acme/docs # text\n[Section][2] @b\n*.py\n",
            "^[Optional] @a\na\\ b/* @c x@y.org\n",
            tokens=["\\ ", " #", "@", "[", "/*", "**"],
        ),
        lambda text: find_owners(text, [b"docs/a.py", b"a b/c", b"a" * 300]),
        (CodeOwnersTimeout,),
        frames=("{}", "* @{}", "[{}", "a{} @b"),
        units=("* @a\n", "**/", "\\ ", "@a/", "[a]"),
        max_bytes=256 * 1024,
        is_text=True,
    ),
)
