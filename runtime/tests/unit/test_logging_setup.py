"""Logs as JSON lines."""

import asyncio
import io
import json
import logging
import weakref
from collections.abc import Iterator

import pytest

from agentjobs_runtime.logging_setup import (
    JsonFormatter,
    LineHandler,
    configure_logging,
    job_id,
    only_handler,
    request_id,
)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    configure_logging("info", LineHandler(stream))
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


async def test_lines_that_wait_are_written_together_and_in_order(log: io.StringIO) -> None:
    logger = logging.getLogger("x")
    handler = the_handler(logger)
    handler.write_soon('{"message":"first"}')
    handler.write_soon('{"message":"second"}')
    assert log.getvalue() == ""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert messages(log) == ["first", "second"]
    handler.write_soon('{"message":"third"}')
    logger.info("urgent")
    assert messages(log) == ["first", "second", "third", "urgent"]


async def test_waiting_lines_are_written_when_the_process_ends(log: io.StringIO) -> None:
    handler = the_handler(logging.getLogger("x"))
    handler.write_soon('{"message":"last"}')
    logging.shutdown([weakref.ref(handler)])
    assert messages(log) == ["last"]


def test_another_handler_must_not_be_bypassed(log: io.StringIO) -> None:
    logger = logging.getLogger("agentjobs.part")
    assert the_handler(logger)
    another = logging.NullHandler()
    logger.addHandler(another)
    assert only_handler(logger) is None
    logger.removeHandler(another)


def the_handler(logger: logging.Logger) -> LineHandler:
    # pytest adds handlers of its own to the root logger.
    root = logging.getLogger()
    root.handlers[:] = [handler for handler in root.handlers if isinstance(handler, LineHandler)]
    handler = only_handler(logger)
    assert handler is not None
    return handler


def messages(log: io.StringIO) -> list[str]:
    return [json.loads(text)["message"] for text in log.getvalue().splitlines()]
