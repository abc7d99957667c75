"""`agentjobs webhooks` as an operator types it; pings reach a real receiver."""

import base64
import getpass
import os
import shutil
import socket
import sqlite3
import subprocess
from contextlib import closing

import pytest

from agentjobs.cli.admin import operator
from agentjobs.organizations.audit import Actor
from agentjobs.webhooks.events import EVENTS
from agentjobs.webhooks.signing import body_signature
from tests.support import preloaded_cli
from tests.support.cli_process import PROGRAM, CommandLine
from tests.support.in_process_cli import InProcessCommandLine
from tests.support.receiver import receiver

# An address that needs no lookup and never receives a request.
URL = "https://93.184.215.14/hook"


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    return InProcessCommandLine(capsys, tmp_path / "data", AGENTJOBS_WEBHOOKS_ALLOW="127.0.0.0/8")


@pytest.fixture
def listed(agentjobs):
    return lambda *more: agentjobs("webhooks", "list", "--json", *more).document["webhooks"]


def test_a_secret_is_alone_on_stdout_once_and_nowhere_in_the_store(agentjobs, listed):
    added = agentjobs("webhooks", "add", URL, "--description", "The bot")
    assert added.exit_code == 0
    secret = added.out.removesuffix("\n")
    assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32
    (endpoint,) = listed()
    assert endpoint["id"] in added.err
    assert secret not in added.err
    assert str(agentjobs.data_dir / "encryption.key") in added.err
    assert (endpoint["url"], endpoint["description"]) == (URL, "The bot")
    assert (endpoint["events"], endpoint["enabled"]) == ([], True)
    shown = agentjobs("webhooks", "list").out
    assert (URL in shown, "all events" in shown, "enabled" in shown) == (True, True, True)
    for kept in agentjobs.data_dir.iterdir():
        assert secret.encode() not in kept.read_bytes()


def test_events_are_given_with_commas_or_repeated_and_unknown_ones_refused(agentjobs, listed):
    agentjobs("webhooks", "add", URL, "--events", "job.failed, job.completed")
    agentjobs("webhooks", "add", URL + "/2", "--events", "job.queued", "--events", "job.failed")
    assert [endpoint["events"] for endpoint in listed()] == [
        ["job.completed", "job.failed"],
        ["job.queued", "job.failed"],
    ]
    refused = agentjobs("webhooks", "add", URL, "--events", "job.done")
    assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert all(event in refused.err for event in EVENTS)
    assert len(listed()) == 2


def test_json_contains_the_secret_and_all_fields_of_the_endpoint(agentjobs, listed):
    added = agentjobs("webhooks", "add", URL, "--json").document
    assert added.pop("secret").startswith("whsec_")
    assert added.pop("warning") is None
    assert listed() == [added]
    repeated = agentjobs("webhooks", "add", URL, "--json").document
    assert added["id"] in repeated["warning"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://93.184.215.14/", "AGENTJOBS_WEBHOOKS_ALLOW"),
        ("https://10.0.0.1/", "AGENTJOBS_WEBHOOKS_ALLOW"),
        ("https://169.254.169.254/", "AGENTJOBS_WEBHOOKS_ALLOW"),
        ("http://127.1:80/", "canonical form"),
        ("example.com", "https://"),
        ("https://a:b@93.184.215.14/", "password"),
    ],
)
def test_a_blocked_url_is_a_one_line_error_and_nothing_is_stored(agentjobs, listed, url, message):
    refused = agentjobs("webhooks", "add", url)
    assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert message in refused.err
    assert listed() == []


def test_a_command_refuses_loopback_until_a_laptop_service_has_run(tmp_path):
    agentjobs = CommandLine(tmp_path / "data")
    refused = agentjobs("webhooks", "add", "http://127.0.0.1:9000/")
    assert (refused.exit_code, refused.out) == (2, "")
    assert "agentjobs up" in refused.err


def test_a_secret_is_rotated_and_promoted(agentjobs, listed):
    old = agentjobs("webhooks", "add", URL).out
    rotated = agentjobs("webhooks", "rotate-secret", URL, "--overlap-hours", "1")
    assert rotated.exit_code == 0
    assert rotated.out.startswith("whsec_")
    assert rotated.out != old
    (endpoint,) = listed()
    assert endpoint["has_pending_secret"]
    assert endpoint["promote_at"] in rotated.err
    assert endpoint["promote_at"] in agentjobs("webhooks", "list").out
    assert "promote-secret" in rotated.err

    promoted = agentjobs("webhooks", "promote-secret", endpoint["id"])
    assert (promoted.exit_code, promoted.out) == (0, endpoint["id"] + "\n")
    assert not listed()[0]["has_pending_secret"]
    repeated = agentjobs("webhooks", "promote-secret", endpoint["id"])
    assert (repeated.exit_code, repeated.out, repeated.err.count("\n")) == (2, "", 1)
    run_concurrently = agentjobs("webhooks", "rotate-secret", URL, "--overlap-hours", "0", "--json")
    assert run_concurrently.document["has_pending_secret"] is False
    assert run_concurrently.document["secret"].startswith("whsec_")
    too_long = agentjobs("webhooks", "rotate-secret", URL, "--overlap-hours", "169")
    assert (too_long.exit_code, too_long.out) == (2, "")


@pytest.fixture
def run_with_full_stdout(agentjobs):
    """Runs a command whose stdout is full or closed; returns its one-line error."""

    def run(*arguments, closed=False):
        if closed:
            done = subprocess.run(
                ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, *arguments],
                env=agentjobs.environment,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                check=False,
            )
        else:
            setup = "tests.support.preloaded_cli:fill_stdout"
            done = preloaded_cli.run(arguments, agentjobs.environment, setup=setup)
        assert done.returncode == 2, done.stderr
        *remarks, fault = done.stderr.splitlines()
        assert fault.startswith("agentjobs: ")
        assert not [line for line in remarks if line.startswith(("agentjobs: ", "Exception"))]
        return fault

    return run


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize("closed", [False, True])
def test_an_endpoint_whose_secret_could_not_be_printed_is_removed_again(
    agentjobs, listed, run_with_full_stdout, options, closed
):
    agentjobs("webhooks", "add", URL + "/other")
    fault = run_with_full_stdout("webhooks", "add", URL, *options, closed=closed)
    assert "The secret could not be printed" in fault
    assert "was removed again" in fault
    assert [endpoint["url"] for endpoint in listed()] == [URL + "/other"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_new_secret_that_could_not_be_printed_stays_pending(
    agentjobs, listed, run_with_full_stdout, options
):
    agentjobs("webhooks", "add", URL)
    fault = run_with_full_stdout("webhooks", "rotate-secret", URL, "--overlap-hours", "7", *options)
    (endpoint,) = listed()
    assert "No space left on device" in fault
    assert f"only signing secret at {endpoint['promote_at']}" in fault
    repeated = fault.partition("Create another: agentjobs ")[2].split()
    assert repeated[-1] == "7"
    assert agentjobs(*repeated).out.startswith("whsec_")
    run_concurrently = run_with_full_stdout(
        "webhooks", "rotate-secret", URL, "--overlap-hours", "0", *options
    )
    assert "only signing secret now" in run_concurrently


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_api_key_that_could_not_be_printed_is_revoked(agentjobs, run_with_full_stdout, options):
    fault = run_with_full_stdout("keys", "create", *options)
    assert "was revoked; create another" in fault
    (key,) = agentjobs("keys", "list", "--json").document["keys"]
    assert key["id"] in fault
    assert key["revoked_at"] is not None


def test_an_endpoint_is_disabled_enabled_and_removed(agentjobs, listed):
    agentjobs("webhooks", "add", URL)
    disabled = agentjobs("webhooks", "disable", URL)
    endpoint_id = disabled.out.removesuffix("\n")
    assert f"agentjobs webhooks enable {endpoint_id}" in disabled.err
    (endpoint,) = listed()
    assert (endpoint["enabled"], endpoint["disabled_reason"]) == (False, "by_hand")
    assert "disabled: by an admin" in agentjobs("webhooks", "list").out

    enabled = agentjobs("webhooks", "enable", endpoint_id)
    assert (enabled.exit_code, enabled.out) == (0, endpoint_id + "\n")
    assert listed()[0]["enabled"]
    removed = agentjobs("webhooks", "remove", endpoint_id, "--json")
    assert removed.document == {"id": endpoint_id, "url": URL, "removed": True}
    assert listed() == []


def test_editing_an_endpoint_keeps_the_other_values(agentjobs, listed):
    agentjobs("webhooks", "add", URL, "--events", "job.failed", "--description", "The bot")
    (before,) = listed()
    edited = agentjobs("webhooks", "edit", URL, "--url", URL + "/2")
    assert (edited.exit_code, edited.out) == (0, before["id"] + "\n")
    assert f"{before['id']} now receives job.failed at {URL}/2." in edited.err
    assert listed() == [{**before, "url": URL + "/2"}]
    edited = agentjobs(
        *("webhooks", "edit", before["id"], "--events", "job.queued,job.failed"),
        *("--description", "", "--json"),
    )
    assert edited.document.pop("warning") is None
    assert (edited.document["events"], edited.document["description"]) == (
        ["job.queued", "job.failed"],
        "",
    )
    agentjobs("webhooks", "edit", before["id"], "--events", "all")
    assert listed()[0]["events"] == []
    agentjobs("webhooks", "add", URL)
    assert "Warning: " in agentjobs("webhooks", "edit", before["id"], "--url", URL).err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--url, --events and --description"),
        (("--url", "https://10.0.0.1/"), "AGENTJOBS_WEBHOOKS_ALLOW"),
        (("--events", "job.done"), "job.completed"),
        (("--events", "all,job.failed"), "'all'"),
        (("--description", "two\nlines"), "one line"),
    ],
)
def test_an_invalid_edit_is_a_one_line_error_and_changes_nothing(
    agentjobs, listed, options, message
):
    agentjobs("webhooks", "add", URL)
    before = listed()
    refused = agentjobs("webhooks", "edit", URL, *options)
    assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert message in refused.err
    assert listed() == before


@pytest.mark.parametrize(
    ("sudo_user", "name"),
    [("ada", "ada"), ("", getpass.getuser()), ("\udc80", f"uid {os.getuid()}")],
)
def test_the_audit_log_names_the_user_of_a_command(agentjobs, monkeypatch, sudo_user, name):
    monkeypatch.setenv("SUDO_USER", sudo_user)
    agentjobs("webhooks", "add", URL)
    with closing(sqlite3.connect(agentjobs.data_dir / "agentjobs.db")) as store:
        records = store.execute(
            "SELECT action, actor_kind, actor, address FROM audit_log ORDER BY id"
        )
        assert records.fetchall() == [
            ("organization.created", "service", "agentjobs", ""),
            ("webhook.added", "operator", name, socket.gethostname()),
        ]


def test_a_user_without_a_name_is_logged_by_number(monkeypatch):
    for variable in ("SUDO_USER", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert operator() == Actor("operator", "uid 4000000000", address=socket.gethostname())


def test_no_command_finds_an_endpoint_of_another_organization(agentjobs, listed):
    agentjobs("orgs", "create", "acme")
    agentjobs("webhooks", "add", URL)
    (endpoint,) = listed()
    assert listed("--org", "acme") == []
    for verb in ("test", "rotate-secret", "promote-secret", "disable", "enable", "remove"):
        refused = agentjobs("webhooks", verb, endpoint["id"], "--org", "acme")
        assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert "webhooks list --org acme" in refused.err
    assert listed() == [endpoint]


def test_a_ping_arrives_signed_and_its_response_is_printed(agentjobs, listed):
    with receiver() as receiving:
        secret = agentjobs("webhooks", "add", receiving.url).out.strip()
        pinged = agentjobs("webhooks", "test", receiving.url)
    assert pinged.exit_code == 0, pinged.err
    assert pinged.out.startswith(f"delivered: status 204 from 127.0.0.1:{receiving.port} after ")
    (received,) = receiving.received
    assert received.event == "ping"
    assert received.headers.get_all("Content-Type") == ["application/json"]
    assert received.headers.get_all("X-Service-Event") == ["ping"]
    assert received.headers["X-Service-Signature-256"] == body_signature(secret, received.body)
    assert f"agentjobs webhooks show {received.headers['X-Service-Delivery']}" in pinged.err
    assert listed()[0]["last_success_at"] is not None


def test_a_sample_of_an_event_is_sent_as_a_test(agentjobs):
    with receiver() as receiving:
        agentjobs("webhooks", "add", receiving.url)
        refused = agentjobs("webhooks", "test", receiving.url, "--event", "job.done")
        assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert "pr.review_requested" in refused.err
        assert agentjobs("webhooks", "test", receiving.url, "--event", "job.failed").exit_code == 0
    (received,) = receiving.received
    assert received.event == "job.failed"
    assert received.headers["X-Service-Sequence"] == "0"


def test_a_failed_ping_exits_with_1_and_prints_the_reason(agentjobs, listed):
    with receiver(lambda _: 500) as receiving:
        agentjobs("webhooks", "add", receiving.url)
        pinged = agentjobs("webhooks", "test", receiving.url, "--json")
    assert pinged.exit_code == 1
    assert '"status_code": 500' in pinged.out
    assert '"error_class": "http_status"' in pinged.out
    gone = agentjobs("webhooks", "test", receiving.url)
    assert (gone.exit_code, "connect" in gone.out) == (1, True)
    assert len(receiving.received) == 1
    assert listed()[0]["failing_since"] is not None


def test_a_disabled_endpoint_can_be_tested_and_stays_disabled(agentjobs, listed):
    with receiver() as receiving:
        agentjobs("webhooks", "add", receiving.url)
        agentjobs("webhooks", "disable", receiving.url)
        pinged = agentjobs("webhooks", "test", receiving.url)
    assert pinged.exit_code == 0
    assert "receives only this test" in pinged.err
    assert len(receiving.received) == 1
    assert not listed()[0]["enabled"]


def test_unreadable_certificates_are_a_one_line_error_and_create_no_delivery(agentjobs):
    agentjobs("webhooks", "add", URL)
    other = agentjobs.with_settings(AGENTJOBS_CA_FILE=str(agentjobs.data_dir / "absent.pem"))
    refused = other("webhooks", "test", URL)
    assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "AGENTJOBS_CA_FILE" in refused.err
