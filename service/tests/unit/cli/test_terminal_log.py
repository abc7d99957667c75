"""The log of `agentjobs up` in a terminal."""

import json
import logging

import pytest

from agentjobs.cli.terminal_log import TerminalLog
from agentjobs_runtime.logging_setup import JsonFormatter


@pytest.fixture
def log(tmp_path):
    """A logger, and the path of its file."""
    handler = TerminalLog(tmp_path / "agentjobs.log", max_bytes=2_000)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("terminal_log")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    yield logger, tmp_path / "agentjobs.log"
    logger.removeHandler(handler)
    handler.close()
    handler.stream.close()


def test_all_lines_are_in_the_file_and_warnings_on_the_screen_too(log, capsys):
    logger, path = log
    logger.info("started")
    logger.warning("the disk is \x1b[2J%s", "full\n")
    assert [json.loads(line)["level"] for line in path.read_text().splitlines()] == [
        "info",
        "warning",
    ]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "warning: the disk is \\x1b[2Jfull\\n\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_file_is_bounded_and_one_earlier_file_is_kept(log):
    logger, path = log
    for number in range(100):
        logger.info("%s", str(number) * 50)
    assert {file.name for file in path.parent.iterdir()} == {"agentjobs.log", "agentjobs.log.1"}
    earlier = path.with_name("agentjobs.log.1").read_text() + path.read_text()
    assert len(earlier) < 5_000
    # In order, up to the last one.
    shown = [json.loads(line)["message"] for line in earlier.splitlines()]
    assert shown == [str(number) * 50 for number in range(100 - len(shown), 100)]


def test_a_file_that_cannot_be_moved_keeps_growing(log, tmp_path):
    logger, path = log
    (tmp_path / "agentjobs.log.1" / "x").mkdir(parents=True)
    for _ in range(20):
        logger.info("x" * 300)
    assert len(path.read_text().splitlines()) == 20
