"""Waiting for a job: what is shown, when it ends, and with which exit code."""

import sys
from collections.abc import Iterator

import httpx
import pytest
import typer

from agentjobs.cli.jobs import text, waiting
from agentjobs.cli.live_line import fit
from agentjobs_client import Client, Job, ServiceUnreachable


class Service:
    """Answers with one state of the job after another, the last one for ever."""

    def __init__(self, *answers: object) -> None:
        self.answers: Iterator[object] = iter(answers)
        self.last: object = None
        self.log = ""
        self.asked: list[str] = []
        self.now = 0.0
        self.client = Client(
            "http://test", "ajk_x", transport=httpx.MockTransport(self.answer), pause=self.sleep
        )

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/logs"):
            return httpx.Response(200, text=self.log)
        waited = float(request.url.params.get("wait_seconds", "0"))
        self.asked.append(request.url.params.get("wait_seconds", ""))
        self.last = next(self.answers, self.last)
        if isinstance(self.last, BaseException):
            raise self.last
        if self.last == "503":
            error = {"code": "unavailable", "message": "Stopping."}
            return httpx.Response(503, json={"error": error})
        self.now += waited
        assert isinstance(self.last, dict)
        return httpx.Response(200, json={"job_id": "job_1", "agent": "x", **self.last})

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def monotonic(self) -> float:
        return self.now


QUEUED = {"status": "queued", "queue_reason": None}
BLOCKED = {"status": "queued", "queue_reason": "plan_limit", "queue_position": 2}
RUNNING = {"status": "running", "elapsed_ms": 65_000}
COMPLETED = {"status": "completed", "pr_url": "http://test/pulls/1"}
FAILED = {"status": "failed", "error": {"code": "no_changes", "message": "Nothing to do."}}


@pytest.fixture
def wait(monkeypatch):
    def run(service: Service, timeout: float | None = None, json: bool = False) -> int:
        monkeypatch.setattr(waiting, "time", service)
        try:
            waiting.wait_and_print(service.client, "job_1", timeout, json, known_status="queued")
        except typer.Exit as ended:
            return ended.exit_code
        return 0

    return run


def test_the_result_of_a_job_without_a_pull_request_is_its_report(wait, capsys):
    assert (
        wait(Service({"status": "completed", "pr_url": None, "report_markdown": "# Fine\n"})) == 0
    )
    assert capsys.readouterr().out == "# Fine\n"


def test_each_change_is_a_line_and_the_pull_request_the_result(wait, capsys):
    assert wait(Service(QUEUED, BLOCKED, BLOCKED, RUNNING, COMPLETED)) == 0
    captured = capsys.readouterr()
    assert captured.out == "http://test/pulls/1\n"
    assert captured.err.splitlines() == [
        "job_1 is queued: the plan's concurrent job limit is reached",
        "job_1 is running",
        "job_1 is completed",
    ]


def test_a_job_that_fails_is_exit_code_1_with_its_reason(wait, capsys):
    assert wait(Service(FAILED)) == 1
    assert "job_1 did not complete: no_changes: Nothing to do." in capsys.readouterr().err


def test_a_timeout_is_exit_code_3_and_says_how_to_go_on(wait, capsys):
    service = Service(RUNNING)
    assert wait(service, timeout=45, json=True) == 3
    assert service.now == 45
    assert service.asked == ["0", "30", "15", "0"]
    captured = capsys.readouterr()
    assert '"status": "running"' in captured.out
    assert "still running after 45 s" in captured.err
    assert "agentjobs jobs wait job_1" in captured.err
    assert "agentjobs jobs cancel job_1" in captured.err


def test_a_timeout_of_less_than_a_second_asks_twice(wait):
    service = Service(RUNNING)
    assert wait(service, timeout=0.5) == 3
    assert service.asked == ["0", "0", "0"]


def test_a_restart_of_the_service_is_survived_and_shown_once(wait, capsys):
    away = [httpx.ConnectError("refused")] * 12
    assert wait(Service(RUNNING, *away, "503", RUNNING, COMPLETED)) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "job_1 is running",
        "Trying again",
        "The service responds again",
        "job_1 is completed",
    ]


def test_a_service_that_stays_away_ends_the_wait(wait):
    with pytest.raises(ServiceUnreachable):
        wait(Service(RUNNING, httpx.ConnectError("refused")))


def test_a_wrong_address_is_asked_as_often_as_by_other_commands(wait, capsys):
    service = Service(httpx.ConnectError("refused"))
    with pytest.raises(ServiceUnreachable):
        wait(service)
    assert len(service.asked) == 5
    assert capsys.readouterr().err == ""


def test_a_timeout_during_an_outage_is_a_timeout(wait):
    assert wait(Service(RUNNING, httpx.ConnectError("refused")), timeout=20) == 3


def test_a_service_that_does_not_wait_is_not_asked_without_a_pause(wait, monkeypatch):
    service = Service(*[RUNNING] * 50, COMPLETED)
    monkeypatch.setattr(service, "now", 0.0)
    answer = service.answer

    def immediately(request: httpx.Request) -> httpx.Response:
        before = service.now
        response = answer(request)
        service.now = before
        return response

    service.client = Client("http://test", "k", transport=httpx.MockTransport(immediately))
    assert wait(service) == 0
    assert service.now >= 45


def test_an_interrupt_says_that_the_job_goes_on(wait, capsys):
    with pytest.raises(KeyboardInterrupt):
        wait(Service(RUNNING, KeyboardInterrupt()))
    assert "The job goes on" in capsys.readouterr().err


def use_terminal(monkeypatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")


def screens(err: str) -> list[str]:
    return [part for part in err.split("\r\x1b[K") if part]


def test_a_terminal_shows_position_elapsed_time_and_the_last_line(wait, capsys, monkeypatch):
    use_terminal(monkeypatch)
    service = Service(BLOCKED, RUNNING, COMPLETED)
    service.log = "first\n\x1b[31mlast \x1b]0;x\x07\x1b[0m\n\n"
    assert wait(service) == 0
    assert screens(capsys.readouterr().err) == [
        "job_1 is queued: the plan's concurrent job limit is reached\n",
        "queued, position 2, the plan's concurrent job limit is rea…",
        "job_1 is running\n",
        "running, 1 min 5 s: last \\x1b]0;x\\x07",
        "job_1 is completed\n",
    ]


def test_a_job_that_waits_again_shows_no_line_of_its_earlier_attempt(wait, capsys, monkeypatch):
    use_terminal(monkeypatch)
    service = Service(RUNNING, BLOCKED, COMPLETED)
    service.log = "earlier\n"
    assert wait(service) == 0
    shown = screens(capsys.readouterr().err)
    assert "running, 1 min 5 s: earlier" in shown
    assert "queued, position 2, the plan's concurrent job limit is rea…" in shown


def test_an_older_service_that_sends_the_whole_log_is_asked_once(wait, capsys, monkeypatch):
    use_terminal(monkeypatch)
    service = Service(RUNNING, RUNNING, RUNNING, COMPLETED)
    service.log = "x\n" * 2_000
    assert wait(service) == 0
    assert capsys.readouterr().err.count("1 min 5 s: x") == 3


def test_a_dumb_terminal_gets_notes(wait, capsys, monkeypatch):
    use_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    assert wait(Service(RUNNING, COMPLETED)) == 0
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "columns", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日 …"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_a_line_is_cut_at_the_width_of_the_terminal(line, columns, shown):
    assert fit(line, columns) == shown


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (59_999, "59 s"),
        (61_000, "1 min 1 s"),
        (7_260_000, "2 h 1 min"),
    ],
)
def test_durations_are_words(milliseconds, words):
    assert text.duration(milliseconds) == words


def test_the_new_fields_of_a_job_are_words():
    job = Job.from_document(
        {
            "job_id": "job_1",
            "status": "completed",
            "agent": "x",
            "labels": {"team": "web", "empty": ""},
            "elapsed_ms": 3_000,
            "config_override": {"draft": True, "title": None},
            "report_markdown": "# Fine\n",
            "report_json": {"score": 1},
            "warnings": [],
            "unknown": {"a": 1},
        }
    )
    assert dict(text.details(job)) == {
        "job_id": "job_1",
        "status": "completed",
        "agent": "x",
        "labels": "team=web, empty=",
        "elapsed": "3 s",
        "config_override": "draft True",
        "report_markdown": "7 characters; see `agentjobs jobs report job_1`",
        "unknown": "a 1",
    }
