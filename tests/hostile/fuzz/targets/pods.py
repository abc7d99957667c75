"""Targets: what a pod sends whose agent has taken over everything in it."""

import io
import stat
import tempfile
from pathlib import Path

from agentjobs_kubernetes.apply_changes import ChangesRequest, apply_changes
from agentjobs_kubernetes.change_stream import DIRECTORY, LINK, REMOVED
from agentjobs_kubernetes.frames import (
    FrameDecoder,
    FrameType,
    ProtocolError,
    encode_frame,
)
from agentjobs_kubernetes.messages import decode_message
from tests.hostile.fuzz.documents import documents, json_documents
from tests.hostile.fuzz.target import Target
from tests.support.pod_files import change

_CHANGES = (
    change(b"link", kind=REMOVED)
    + change(b"directory/inner", kind=REMOVED)
    + change(b"file", b"content " * 100)
    + change(b"directory", kind=DIRECTORY)
    + change(b"directory/" + b"n" * 200, b"x", mode=0o755)
    + change(b"mine", kind=LINK, target=b"../outside")
)
_TOKENS = (
    *(b"../outside/file", b"mine/file", b"link/file", b"/etc/passwd", b"./", b"\xff" * 8, bytes(8)),
    *(change(b"mine/file", b"x"), change(b"link/file", b"x"), change(b"link", b"x")),
    *(change(b"link/file", kind=REMOVED), change(b"../outside/file", kind=REMOVED)),
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


def _apply(document: bytes) -> object:
    with tempfile.TemporaryDirectory() as directory:
        outside, target = Path(directory, "outside"), Path(directory, "target")
        for path in (outside, target, target / "directory"):
            path.mkdir()
        for path in (outside / "file", target / "file", target / "directory" / "inner"):
            path.write_text("before")
        (target / "link").symlink_to(outside)
        response = apply_changes(
            ChangesRequest(
                target=str(target),
                lower="",
                deleted="",
                max_bytes=256 * 1024,
                max_file_bytes=64 * 1024,
                entry_bytes=1024,
            ),
            io.BytesIO(document),
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
    Target("changes of a pod", documents(_CHANGES, tokens=_TOKENS), _apply),
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
