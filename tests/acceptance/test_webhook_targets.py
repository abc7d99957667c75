"""Where a running service may send: the laptop exception and the setting."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.receiver import receiver
from tests.support.service import Service, wait_until
from tests.support.webhook_service import (
    QUICK,
    REPO,
    add_endpoint,
    open_harness,
    outcomes,
    running,
    settled,
)

SETTING = "AGENTJOBS_WEBHOOKS_ALLOW"
ON_THIS_MACHINE = "http://127.0.0.1:9/hook"

StartHere = Callable[..., Service]


@pytest.fixture
def start_here(tmp_path: Path) -> Iterator[StartHere]:
    """Starts services in one data directory, one after the other."""
    with ExitStack() as stack:

        def start_one(*command: str, **environment: str) -> Service:
            service = Service(tmp_path / "data", {**QUICK, **environment}, command or ("up",))
            return stack.enter_context(running(service))

        yield start_one


def check_refused(service: Service, url: str) -> None:
    result = service.try_admin("webhooks", "add", url)
    assert result.returncode == 2, result
    assert SETTING in result.stderr
    assert result.stdout == ""


def test_up_on_loopback_may_reach_loopback_and_no_other_internal_address(
    start_here: StartHere,
) -> None:
    service = start_here()
    for url in (ON_THIS_MACHINE, "https://[::1]:9/"):
        add_endpoint(service, url)
    for url in ("http://10.0.0.1/", "https://169.254.169.254/"):
        check_refused(service, url)


def test_an_allow_list_replaces_the_exception_for_loopback(start_here: StartHere) -> None:
    check_refused(start_here(AGENTJOBS_WEBHOOKS_ALLOW="10.1.0.0/16"), ON_THIS_MACHINE)


def test_loopback_is_no_longer_reached_once_another_user_exists(
    start_here: StartHere, tmp_path: Path
) -> None:
    with receiver() as receiving:
        service = start_here()
        harness = open_harness(service, tmp_path)
        harness.add(receiving.url, "--events", "job.queued")
        harness.api.create(REPO, "idle")
        receiving.wait_for(1)
        service.admin("users", "add", "eve@example.com", "--role", "admin")
        wait_until(lambda: "no longer reach" in service.log(), "the change to be noticed")
        check_refused(service, ON_THIS_MACHINE)

        harness.api.create(REPO, "idle")
        _, logged = sorted(settled(service), key=lambda delivery: delivery["created_at"])
    assert outcomes(logged) == ["blocked_address"] * 4
    assert len(receiving.received) == 1


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        (("up",), {"AGENTJOBS_PUBLIC_URL": "http://jobs.example"}),
        (("up", "--host", "0.0.0.0"), {}),
    ],
    ids=["public address", "all interfaces"],
)
def test_a_service_that_others_can_reach_may_not_reach_loopback(
    start_here: StartHere, command: tuple[str, ...], environment: dict[str, str]
) -> None:
    check_refused(start_here(*command, **environment), ON_THIS_MACHINE)


def test_up_on_postgresql_may_not_reach_loopback(start_here: StartHere, postgres_url: str) -> None:
    service = start_here(AGENTJOBS_DATABASE_URL=postgres_url)
    check_refused(service, ON_THIS_MACHINE)
    assert service.stop() == 0


def test_commands_use_the_setting_of_the_service(start_here: StartHere) -> None:
    service = start_here("serve", AGENTJOBS_WEBHOOKS_ALLOW="10.1.0.0/16,10.3.0.0/16")
    command_line = Service(service.data_dir)
    add_endpoint(command_line, "http://10.1.2.3/")
    check_refused(command_line, "https://10.2.0.1/")


def test_an_address_that_is_no_longer_allowed_is_not_dialled(
    start_here: StartHere, tmp_path: Path
) -> None:
    with receiver() as receiving:
        service = start_here()
        harness = open_harness(service, tmp_path)
        harness.add(receiving.url, "--events", "job.queued")
        key = harness.api.http.headers["Authorization"].removeprefix("Bearer ")
        assert service.stop() == 0
        exposed = start_here("serve")
        check_refused(exposed, ON_THIS_MACHINE)
        exposed.client(key).create(REPO, "idle")
        (logged,) = settled(exposed)
    assert outcomes(logged) == ["blocked_address"] * 4
    assert {each["address"] for each in logged["attempts"]} == {None}
    assert SETTING in logged["attempts"][0]["error"]
    assert receiving.received == []
