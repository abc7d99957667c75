"""Targets: what a pod sends whose agent has taken over everything in it."""

import io
import stat
import tempfile
from pathlib import Path

from agentjobs_kubernetes.archive import ArchiveRequest, apply_changes
from agentjobs_kubernetes.frames import (
    FrameDecoder,
    FrameType,
    ProtocolError,
    encode_frame,
)
from agentjobs_kubernetes.messages import decode_message
from agentjobs_kubernetes.tar_stream import BLOCK_BYTES
from tests.hostile.fuzz.documents import documents, json_documents
from tests.hostile.fuzz.target import Target
from tests.support.pod_files import END, LONG_LINK, changes_of, long_name, member

_MAGIC = b"ustar  \0"
_DELETED = b"file\0directory/inner\0link\0"
_ARCHIVE = (
    member(b"./", kind=b"5", mode=0o755)
    + member(b"file", b"content " * 100)
    + member(b"directory/", kind=b"5")
    + member(b"directory/inner", b"x", mode=0o755)
    + member(b"mine", kind=b"2", target=b"../outside")
    + END
)
_LONG_NAMES = (
    long_name(b"directory/" + b"n" * 200)
    + member(b"n", b"x")
    + long_name(b"../" * 50 + b"outside/file", kind=b"K")
    + member(b"mine", kind=b"2", target=b"..")
    + END
)
_TOKENS = (
    *(_MAGIC, b"../outside/file", b"mine/file", b"link/file", b"/etc/passwd", b"./", LONG_LINK),
    *(b"0" * 11 + b"\0", b"7" * 11 + b"\0", b"\x80" + bytes(10) + b"\x01", b"\xff" * 12),
    *(member(b"mine/file", b"x"), member(b"link/file", b"x"), member(b"link", b"x"), END),
)
_HELLO = {"type": "hello", "version": 2, "architecture": "x86_64"}
_HELLO |= {"state": "running", "session": 1}
_ENDED = {"type": "ended", "exit_code": 1, "exceeded": "memory", "duration_ms": 5}
_FAILED = {"type": "failed", "id": 2, "reason": "no space left"}
_PORT = {"type": "port", "id": 1, "number": 443, "address": "127.0.0.1"}
_STREAM = (
    encode_frame(FrameType.MESSAGE, b'{"type":"pong"}')
    + encode_frame(FrameType.OUTPUT, bytes(8) + b"line")
    + encode_frame(FrameType.DATA, b"data")
    + encode_frame(FrameType.DATA, b"")
)


def _with_checksums(document: bytes) -> bytes:
    """Without them, hardly a changed header would be read."""
    blocks = [document[at : at + BLOCK_BYTES] for at in range(0, len(document), BLOCK_BYTES)]
    for number, block in enumerate(blocks):
        if block[257:265] == _MAGIC and len(block) == BLOCK_BYTES:
            checksum = sum(block) - sum(block[148:156]) + 8 * 32
            blocks[number] = block[:148] + b"%06o\0 " % checksum + block[156:]
    return b"".join(blocks)


def _apply(document: bytes) -> object:
    with tempfile.TemporaryDirectory() as directory:
        outside, target = Path(directory, "outside"), Path(directory, "target")
        for path in (outside, target, target / "directory"):
            path.mkdir()
        for path in (outside / "file", target / "file", target / "directory" / "inner"):
            path.write_text("before")
        (target / "link").symlink_to(outside)
        response = apply_changes(
            ArchiveRequest(
                target=str(target),
                lower="",
                deleted="",
                max_bytes=256 * 1024,
                max_file_bytes=64 * 1024,
                entry_bytes=1024,
            ),
            io.BufferedReader(io.BytesIO(document)),
        )
        assert {path.name for path in Path(directory).iterdir()} == {"outside", "target"}
        assert [path.name for path in outside.iterdir()] == ["file"]
        assert (outside / "file").read_text() == "before"
        for path in target.rglob("*"):
            _check_harmless(path)
        assert "error" not in response, response
        return dict(response)


def _check_harmless(path: Path) -> None:
    mode = path.lstat().st_mode
    assert stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
    assert stat.S_ISLNK(mode) or not mode & 0o7000


TARGETS = (
    Target(
        "archive of a pod",
        documents(_ARCHIVE, _LONG_NAMES, tokens=_TOKENS).map(_with_checksums).map(changes_of),
        _apply,
    ),
    Target(
        "deletions of a pod",
        documents(_DELETED, tokens=(b"link/file\0", b"../outside/file\0", b"\0", b"mine\0")),
        lambda deletions: _apply(deletions + b"\0" + END),
    ),
    Target(
        "frames of a pod",
        documents(_STREAM, tokens=(b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x02", b"\x06")),
        lambda stream: list(FrameDecoder().feed(stream)),
        (ProtocolError,),
    ),
    Target(
        "messages of a pod",
        json_documents(_HELLO, _ENDED, _FAILED, _PORT),
        decode_message,
        (ProtocolError,),
    ),
)
