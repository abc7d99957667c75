"""Registries that send garbage, too much or too slowly end in a reason, never in a wrong fix."""

import io
import socket
import socketserver
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agentjobs_dependencies.fixes import download, java
from agentjobs_dependencies.fixes.fix import fix_all
from agentjobs_dependencies.fixes.go import go_mod
from agentjobs_dependencies.fixes.model import Candidate, CannotFix, Fix
from agentjobs_dependencies.fixes.python import requirements, sdist_metadata

Answer = Callable[[socket.socket], None]


def sends(body: bytes, status: str = "200 OK", length: int | None = None) -> Answer:
    size = len(body) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    return lambda connection: connection.sendall(head.encode() + body)


def sends_slowly(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    stopped = threading.Event()
    while not stopped.wait(0.01):
        connection.sendall(b"x")


@contextmanager
def registry(answer: Answer) -> Iterator[str]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.request.recv(65536)
                answer(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


GARBAGE = b"\x00\xff<a href=" * 300
UNUSABLE: dict[str, Answer] = {
    "no HTTP": lambda connection: connection.sendall(b"NOT HTTP\r\n\r\n"),
    "closed": lambda _: None,
    "cut off": sends(b"x", length=500),
    "error": sends(b"", "503 Service Unavailable"),
    "too large": sends(b"x" * 2_000_000),
    "long header": lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nA: " + b"x" * 99_999),
    "slow": sends_slowly,
}


@pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE)
def test_a_file_that_cannot_be_downloaded_gives_a_reason(answer: Answer) -> None:
    with registry(answer) as url, pytest.raises(download.DownloadFailed, match=r"six\.zip"):
        download.download(f"{url}/six.zip", 1024 * 1024, timeout_seconds=1)


@pytest.mark.parametrize("answer", [sends(GARBAGE), UNUSABLE["no HTTP"]], ids=["garbage", "none"])
def test_a_go_module_without_readable_files_gives_a_draft(
    answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go_mod, "has_tool", lambda _: False)
    before = "module a\n\nrequire example.com/b v1.0.0\n"
    (tmp_path / "go.mod").write_text(before)
    (tmp_path / "go.sum").write_text("")
    with registry(answer) as url:
        fix = Fix("Go", "go.mod", "example.com/b", "1.0.0", "1.0.1", registry=url)
        outcome = go_mod.apply([fix], tmp_path)
    assert "go.sum next to go.mod does not list" in outcome.unproven[0]
    assert (tmp_path / "go.sum").read_text() == ""
    assert (tmp_path / "go.mod").read_text() == before.replace("1.0.0", "1.0.1")


@pytest.mark.parametrize(
    "answer", [sends(GARBAGE), UNUSABLE["long header"]], ids=["garbage", "none"]
)
def test_a_jar_that_cannot_be_read_does_not_limit_the_java_release(answer: Answer) -> None:
    with registry(answer) as url:
        fix = Fix("Maven", "pom.xml", "a:b", "1.0", "1.1", registry=url)
        assert java.needed_release(fix, "1.1") is None


JSON = b'{"files": ['
JSON_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.pypi.simple.v1+json\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(JSON), JSON)
)


def test_pins_are_not_taken_for_broken_if_the_registry_is(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("six==1.16.0\n")
    with registry(lambda connection: connection.sendall(JSON_PAGE)) as url:
        fix = Fix("PyPI", "requirements.txt", "six", "1.16.0", "1.17.0", registry=url)
        outcome = requirements.apply([fix], tmp_path)
    (reason,) = outcome.unproven
    assert "could not be checked for conflicts, because uv pip failed" in reason
    assert "unexpected JSON" in reason


def archive_with(name: str, size: int) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path, length in (("a-1/data", size), (name, 4)):
            info = tarfile.TarInfo(path)
            info.size = length
            archive.addfile(info, io.BytesIO(b"six\n" * (length // 4)))
    return content.getvalue()


def page_then(archive: bytes) -> Answer:
    """A page of the index, and the archive that it names."""
    answers = iter([sends(b'<a href="a-1.tar.gz">'), sends(archive)])

    def answer(connection: socket.socket) -> None:
        next(answers)(connection)

    return answer


GOOD = archive_with("a-1/a.egg-info/requires.txt", 4_000)


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (GARBAGE, "cannot be read"),
        (GOOD[: len(GOOD) // 2], "cannot be read"),
        (GOOD[:30] + b"\xff" * 20 + GOOD[50:], "cannot be read"),
        (b"", "cannot be read"),
        (archive_with("a-1/a.egg-info/requires.txt", 4_000_000), "too large"),
        (archive_with("a-1/README", 4), "does not say what it requires"),
    ],
)
def test_an_archive_that_cannot_be_used_gives_a_reason(
    archive: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdist_metadata, "_MAX_UNPACKED_BYTES", 1_000_000)
    with registry(page_then(archive)) as url, pytest.raises(CannotFix, match=reason):
        sdist_metadata.fetch_requirements(url, "a", "1")


def test_a_page_of_tags_that_do_not_end_has_no_archive() -> None:
    page = sends(b"<a " * 1_000_000)
    with registry(page) as url, pytest.raises(CannotFix, match="has no source distribution"):
        sdist_metadata.fetch_requirements(url, "a", "1")


def test_an_error_while_a_version_is_chosen_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pom.xml").write_text("<project/>")
    fix = Fix("Maven", "pom.xml", "a:b", "1", "2", candidates=(Candidate("2"),))
    monkeypatch.setattr(java, "supported_release", lambda *_: int("x"))
    (failure,) = fix_all([fix], tmp_path).failed
    assert "what pom.xml supports could not be read: ValueError" in failure.reason


def test_a_damaged_archive_of_a_module_gives_a_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b@v1.0.1/go.mod", "module b\n" * 100)
    damaged = bytearray(content.getvalue())
    damaged[60:70] = b"\xff" * 10
    (tmp_path / "go.mod").write_text("module a\n\nrequire example.com/b v1.0.0\n")
    (tmp_path / "go.sum").write_text("")
    monkeypatch.setattr(go_mod, "has_tool", lambda _: False)
    with registry(sends(bytes(damaged))) as url:
        fix = Fix("Go", "go.mod", "example.com/b", "1.0.0", "1.0.1", registry=url)
        outcome = go_mod.apply([fix], tmp_path)
    assert "archive cannot be read" in outcome.unproven[0]
