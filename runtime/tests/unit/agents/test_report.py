import os
from pathlib import Path

import pytest

from agentjobs_runtime.agents.report import MAX_REPORT_BYTES, Report, read_report


@pytest.fixture
def report_path(tmp_path: Path) -> Path:
    (tmp_path / "report").mkdir()
    return tmp_path / "report" / "pull_request.md"


def read(report_path: Path) -> Report | None:
    return read_report(report_path.parent.parent)


def test_the_first_line_is_the_title_and_the_rest_the_body(report_path: Path) -> None:
    report_path.write_text("Fix it\n\n- one\n- two\n")
    assert read(report_path) == Report("Fix it", "- one\n- two")


def test_a_missing_report_is_none(report_path: Path) -> None:
    assert read(report_path) is None
    assert read_report(report_path.parent / "nowhere") is None


@pytest.mark.parametrize("content", [b"", b"\n\n", b" \t\n \n"])
def test_an_empty_report_is_none(report_path: Path, content: bytes) -> None:
    report_path.write_bytes(content)
    assert read(report_path) is None


def test_leading_empty_lines_and_a_heading_mark_are_not_part_of_the_title(
    report_path: Path,
) -> None:
    report_path.write_bytes("\ufeff\r\n## Fix   it\r\nbody\r\n".encode())
    assert read(report_path) == Report("Fix it", "body")


def test_a_link_is_not_followed(report_path: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    report_path.symlink_to(tmp_path / "secret")
    assert read(report_path) is None


def test_a_fifo_does_not_block(report_path: Path) -> None:
    os.mkfifo(report_path)
    assert read(report_path) is None


def test_a_directory_is_ignored(report_path: Path) -> None:
    report_path.mkdir()
    assert read(report_path) is None


def test_256_kib_are_read_and_one_byte_more_is_not(report_path: Path) -> None:
    report_path.write_bytes(b"T\n" + b"x" * (MAX_REPORT_BYTES - 2))
    assert read(report_path) is not None
    report_path.write_bytes(b"T\n" + b"x" * (MAX_REPORT_BYTES - 1))
    assert read(report_path) is None


def test_a_huge_sparse_file_is_not_read_completely(report_path: Path) -> None:
    report_path.touch()
    os.truncate(report_path, 2**40)
    assert read(report_path) is None


def test_invalid_utf_8_and_control_characters_are_replaced(report_path: Path) -> None:
    report_path.write_bytes(b"Fix\x00 \x1b[31mit\xff\nbo\x07dy\tx")
    assert read(report_path) == Report("Fix [31mit\N{REPLACEMENT CHARACTER}", "body\tx")


def test_a_long_title_is_truncated(report_path: Path) -> None:
    report_path.write_text("word " * 100)
    report = read(report_path)
    assert report is not None
    assert len(report.title) <= 200
    assert report.title.endswith("…")


def test_each_line_of_the_draft_file_is_a_reason_for_a_draft(report_path: Path) -> None:
    draft = report_path.with_name("draft.md")
    draft.write_text("- The old set   does not resolve.\n\nNor does the new one.\n")
    reasons = ("The old set does not resolve.", "Nor does the new one.")
    assert read(report_path) == Report("", "", reasons)
    report_path.write_text("Fix it\n")
    assert read(report_path) == Report("Fix it", "", reasons)
    draft.write_bytes(b"")
    assert read(report_path) == Report("Fix it", "", ("The agent gave no reason.",))
    draft.write_text("x\n" * 20_000)
    report = read(report_path)
    assert report is not None
    assert len(report.draft_reasons) == 20


def test_a_draft_file_that_is_a_link_is_ignored(report_path: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    report_path.with_name("draft.md").symlink_to(tmp_path / "secret")
    assert read(report_path) is None
