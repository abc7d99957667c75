"""The log of a build: redacted and bounded."""

from agentjobs_runtime.environments.records import MAX_LOG_CHARACTERS
from agentjobs_worker.environments import build_log
from agentjobs_worker.environments.build_log import MAX_OUTPUT_BYTES, BuildLog

SECRET = "token-of-setup-0123"


def test_secrets_are_redacted_however_the_output_is_split() -> None:
    log = BuildLog([SECRET])
    for byte in f"use {SECRET} now\n".encode():
        log.write(bytes([byte]))
    log.note(f"it was {SECRET}")
    assert log.text == "use [redacted] now\n[agentjobs] it was [redacted]\n"
    assert log.redact(f"no {SECRET}") == "no [redacted]"


def test_of_endless_output_the_end_is_kept_and_redacted() -> None:
    log = BuildLog([SECRET])
    chunk = b"x" * 1023 + b"\n"
    for _ in range(MAX_OUTPUT_BYTES // len(chunk) + 500):
        log.write(chunk)
    log.write(f"the last line has {SECRET}\n".encode())
    log.end_output()
    assert len(log.text) <= MAX_LOG_CHARACTERS
    assert "output is left out here" in log.text
    assert log.last_lines.endswith("the last line has [redacted]")


def test_a_secret_at_the_edge_of_what_is_left_out_is_not_shown_in_part() -> None:
    log = BuildLog([SECRET])
    log.write(b"x" * MAX_OUTPUT_BYTES)
    end = build_log._END_BYTES
    log.write(SECRET.encode() + b"\n" + b"y" * (end - 6) + b"\n")
    log.end_output()
    assert SECRET[-5:] not in log.text


def test_a_change_is_told_once() -> None:
    log = BuildLog()
    assert log.take_change() is None
    log.note("starts")
    assert log.take_change() == "[agentjobs] starts\n"
    assert log.take_change() is None
