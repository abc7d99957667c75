"""Reading what an agent left as artifacts, which may be anything."""

import os
import stat
from pathlib import Path

import pytest

from agentjobs_runtime.agents import artifacts
from agentjobs_runtime.agents.artifacts import MAX_ARTIFACT_BYTES, detect_media_type, read_artifacts

MIB = 1024**2
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "artifacts").mkdir()
    return tmp_path / "artifacts"


def names(directory: Path) -> list[str]:
    return [each.name for each in read_artifacts(directory.parent).files]


def left_out(directory: Path) -> tuple[str, ...]:
    return read_artifacts(directory.parent).left_out


def test_regular_files_are_read_by_name(directory: Path) -> None:
    for name, content in {"b.txt": b"text", "a.png": PNG, "_-.": b"", "Z9": b"\xff"}.items():
        (directory / name).write_bytes(content)
    read = read_artifacts(directory.parent)
    assert [(each.name, each.content, each.media_type) for each in read.files] == [
        ("Z9", b"\xff", "application/octet-stream"),
        ("_-.", b"", "text/plain"),
        ("a.png", PNG, "image/png"),
        ("b.txt", b"text", "text/plain"),
    ]
    assert read.left_out == ()


def test_without_a_directory_there_are_none(tmp_path: Path) -> None:
    assert read_artifacts(tmp_path).files == ()
    (tmp_path / "artifacts").symlink_to("/etc")
    assert read_artifacts(tmp_path).files == ()


def test_only_regular_files_are_read(directory: Path) -> None:
    (directory.parent / "secret").write_text("secret")
    (directory / "link").symlink_to("../secret")
    (directory / "absolute").symlink_to("/etc/passwd")
    (directory / "loop").symlink_to("loop")
    (directory / "inner").mkdir()
    (directory / "inner" / "file").write_text("below")
    os.mkfifo(directory / "pipe")
    (directory / "kept").write_text("kept")
    os.mknod(directory / "socket", stat.S_IFSOCK | 0o600)
    assert names(directory) == ["kept"]
    assert len(left_out(directory)) == 6
    assert all("not a regular file" in reason for reason in left_out(directory))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"two\nlines", "two\\nlines"),
        (b".hidden", ".hidden"),
        (b"..double", "..double"),
        (b"-option", "-option"),
        (b"sp ace", "sp ace"),
        (b'quote"', 'quote"'),
        (b"caf\xe9", "caf\N{REPLACEMENT CHARACTER}"),
        (b"\x1b[31m", "\\x1b[31m"),
        (b"x" * 129, "x" * 59 + "…"),
    ],
)
def test_other_names_are_left_out(directory: Path, name: bytes, shown: str) -> None:
    (directory / os.fsdecode(name)).write_text("x")
    assert names(directory) == []
    (reason,) = left_out(directory)
    assert reason.startswith(f"{shown} (its name")


def test_large_and_sparse_files_are_left_out_without_reading_them(directory: Path) -> None:
    for name, size in (("limit", MAX_ARTIFACT_BYTES), ("over", MAX_ARTIFACT_BYTES + 1)):
        (directory / name).touch()
        os.truncate(directory / name, size)
    (directory / "sparse").touch()
    os.truncate(directory / "sparse", 2**40)
    assert names(directory) == ["limit"]
    assert left_out(directory) == ("over (larger than 10 MiB)", "sparse (larger than 10 MiB)")


def test_the_files_of_a_job_have_32_mib_together(directory: Path) -> None:
    for number in range(4):
        (directory / f"{number}").touch()
        os.truncate(directory / f"{number}", 10 * MIB)
    (directory / "small").write_bytes(b"x" * MIB)
    assert names(directory) == ["0", "1", "2", "small"]
    assert left_out(directory) == ("3 (more than 32 MiB in total)",)


def test_of_ten_thousand_files_fifty_are_kept(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10_000):
        (directory / f"{number:05}").touch()
    assert names(directory) == [f"{number:05}" for number in range(50)]
    assert len(left_out(directory)) == 9_950
    monkeypatch.setattr(artifacts, "_MAX_ENTRIES", 100)
    assert len(left_out(directory)) == 50


def test_the_type_follows_the_content_and_not_the_name(directory: Path) -> None:
    (directory / "picture.png").write_bytes(SVG)
    (directory / "page.png").write_bytes(b"<!doctype html><script>alert(1)</script>")
    assert {each.media_type for each in read_artifacts(directory.parent).files} == {"text/plain"}


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0....JFIF", "image/jpeg"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\0\0\0WAVEfmt\xff", "application/octet-stream"),
        (b"GIF89a\xff", "application/octet-stream"),
        (b"\x89PN", "application/octet-stream"),
        (" caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), "text/plain"),
        (b"caf\xe9", "application/octet-stream"),
    ],
)
def test_media_types(content: bytes, media_type: str) -> None:
    assert detect_media_type(content) == media_type
