"""Logs as JSON lines."""

import asyncio
import io
import json
import logging
import weakref
from collections.abc import Iterator

import pytest

from agentjobs.logging_setup import JsonFormatter, configure_logging, job_id, request_id


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    configure_logging("info", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("uvicorn.access").disabled = False
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = True


def line(log: io.StringIO) -> dict[str, object]:
    (text,) = log.getvalue().splitlines()
    found: dict[str, object] = json.loads(text)
    return found


def test_a_line_has_a_time_a_level_a_logger_and_a_message(log: io.StringIO) -> None:
    logging.getLogger("agentjobs.part").warning("watch %s", "out\nnow")
    found = line(log)
    assert str(found.pop("time")).endswith("Z")
    assert found == {"level": "warning", "logger": "agentjobs.part", "message": "watch out\nnow"}


def test_a_line_names_its_request_and_its_job(log: io.StringIO) -> None:
    tokens = request_id.set("req_1"), job_id.set("job_1")
    logging.getLogger("x").info("hello", extra={"fields": {"count": 3}})
    request_id.reset(tokens[0])
    job_id.reset(tokens[1])
    found = line(log)
    assert (found["request_id"], found["job_id"], found["count"]) == ("req_1", "job_1", 3)


def test_an_exception_is_a_field_of_its_line(log: io.StringIO) -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("x").exception("failed")
    assert "ValueError: broken" in str(line(log)["traceback"])


def test_values_that_json_cannot_encode_are_logged_as_text() -> None:
    fields = {"where": io.StringIO, "name": "\udcff"}
    record = logging.makeLogRecord({"msg": "file \udcff", "fields": fields})
    assert "udcff" in json.loads(JsonFormatter().format(record))["message"]


def test_messages_below_the_level_are_not_logged(log: io.StringIO) -> None:
    logging.getLogger("x").debug("hush")
    assert log.getvalue() == ""


async def test_lines_that_may_wait_are_written_together_and_in_order(log: io.StringIO) -> None:
    logger = logging.getLogger("x")
    logger.info("first", extra={"may_wait": True})
    logger.info("second", extra={"may_wait": True})
    assert log.getvalue() == ""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert messages(log) == ["first", "second"]
    logger.info("third", extra={"may_wait": True})
    logger.info("urgent")
    assert messages(log) == ["first", "second", "third", "urgent"]


def test_a_line_that_may_wait_is_written_at_once_outside_an_event_loop(log: io.StringIO) -> None:
    logging.getLogger("x").info("now", extra={"may_wait": True})
    assert messages(log) == ["now"]


async def test_waiting_lines_are_written_when_the_process_ends(log: io.StringIO) -> None:
    logging.getLogger("x").info("last", extra={"may_wait": True})
    handlers = [weakref.ref(handler) for handler in logging.getLogger().handlers[:1]]
    logging.shutdown(handlers)
    assert messages(log) == ["last"]


def messages(log: io.StringIO) -> list[str]:
    return [json.loads(text)["message"] for text in log.getvalue().splitlines()]
