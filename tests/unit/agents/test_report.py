import os
from pathlib import Path

import pytest

from agentjobs.agents.report import MAX_REPORT_BYTES, Report, read_report


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (tmp_path / "report").mkdir()
    return tmp_path / "report" / "pull_request.md"


def read(written: Path) -> Report | None:
    return read_report(written.parent.parent)


def test_the_first_line_is_the_title_and_the_rest_the_body(written: Path) -> None:
    written.write_text("Fix it\n\n- one\n- two\n")
    assert read(written) == Report("Fix it", "- one\n- two")


def test_a_missing_report_is_none(written: Path) -> None:
    assert read(written) is None
    assert read_report(written.parent / "nowhere") is None


@pytest.mark.parametrize("content", [b"", b"\n\n", b" \t\n \n"])
def test_an_empty_report_is_none(written: Path, content: bytes) -> None:
    written.write_bytes(content)
    assert read(written) is None


def test_leading_empty_lines_and_a_heading_mark_are_not_part_of_the_title(written: Path) -> None:
    written.write_bytes("\ufeff\r\n## Fix   it\r\nbody\r\n".encode())
    assert read(written) == Report("Fix it", "body")


def test_a_link_is_not_followed(written: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    written.symlink_to(tmp_path / "secret")
    assert read(written) is None


def test_a_fifo_does_not_block(written: Path) -> None:
    os.mkfifo(written)
    assert read(written) is None


def test_a_directory_is_ignored(written: Path) -> None:
    written.mkdir()
    assert read(written) is None


def test_256_kib_are_read_and_one_byte_more_is_not(written: Path) -> None:
    written.write_bytes(b"T\n" + b"x" * (MAX_REPORT_BYTES - 2))
    assert read(written) is not None
    written.write_bytes(b"T\n" + b"x" * (MAX_REPORT_BYTES - 1))
    assert read(written) is None


def test_a_huge_sparse_file_is_not_read_completely(written: Path) -> None:
    written.touch()
    os.truncate(written, 2**40)
    assert read(written) is None


def test_invalid_utf_8_and_control_characters_are_replaced(written: Path) -> None:
    written.write_bytes(b"Fix\x00 \x1b[31mit\xff\nbo\x07dy\tx")
    assert read(written) == Report("Fix [31mit\N{REPLACEMENT CHARACTER}", "body\tx")


def test_a_long_title_is_truncated(written: Path) -> None:
    written.write_text("word " * 100)
    report = read(written)
    assert report is not None
    assert len(report.title) <= 200
    assert report.title.endswith("…")
