"""A service behind a proxy whose certificate is of a private authority: everything reaches it."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_process import CommandLine
from tests.support.service import Service, sample_repository, wait_until, worker_beside
from tests.support.tls_proxy import TlsProxy, tls_proxy


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsProxy]:
    with tls_proxy(tmp_path_factory.mktemp("proxy")) as running:
        yield running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, proxy: TlsProxy) -> Iterator[Service]:
    """`serve` and a worker, which reach each other only through the proxy."""
    data_dir = tmp_path_factory.mktemp("private") / "data"
    environment = {
        "AGENTJOBS_HOST": proxy.service_host,
        "AGENTJOBS_PUBLIC_URL": proxy.url,
        "AGENTJOBS_CA_FILE": str(proxy.ca_file),
    }
    serve = Service(data_dir, environment, ("serve",), port=proxy.service_port).start()
    worker = worker_beside(serve, data_dir, **environment).start()
    source = sample_repository(data_dir.parent / "source")
    serve.admin("repos", "connect", str(source), "--name", "acme/shop", "--wait")
    yield serve
    assert worker.stop() == serve.stop() == 0, worker.log()


@pytest.fixture
def user(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "none")


def test_a_job_runs_for_a_user_who_names_the_authority_once(
    service: Service, proxy: TlsProxy, user: CommandLine
) -> None:
    key = service.key()
    refused = user("login", proxy.url, typed=key)
    assert refused.exit_code == 2
    assert "its certificate is not trusted" in refused.err
    assert "AGENTJOBS_CA_FILE" in refused.err
    logged_in = user("login", proxy.url, "--ca-file", str(proxy.ca_file), typed=key)
    assert logged_in.exit_code == 0, logged_in.err
    done = user("jobs", "create", "--repo", "acme/shop", "--agent", "edit", "--wait", "--json")
    # The worker has fetched and pushed over TLS.
    assert done.document["pr_url"].startswith(f"{proxy.url}/")
    (context,) = user("contexts", "list", "--json").document["contexts"]
    assert context["ca_file"] == str(proxy.ca_file)


def test_a_job_waits_while_its_worker_does_not_trust_the_service(
    service: Service, proxy: TlsProxy, user: CommandLine, tmp_path: Path
) -> None:
    """On another machine, whose tags let it claim the job."""
    settings = {"AGENTJOBS_PUBLIC_URL": proxy.url, "AGENTJOBS_WORKER_TAGS": "new"}
    worker = worker_beside(service, tmp_path / "machine", **settings).start()
    service.admin("repos", "set", "acme/shop", "--tags", "new")
    settings = {"AGENTJOBS_URL": proxy.url, "AGENTJOBS_API_KEY": service.key()}
    trusting = user.with_settings(**settings, AGENTJOBS_CA_FILE=str(proxy.ca_file))
    job_id = trusting("jobs", "create", "--repo", "acme/shop", "--agent", "edit").out.strip()

    def reason() -> str | None:
        document = trusting("jobs", "show", job_id, "--json").document
        assert document["status"] == "queued"
        return document["queue_reason"]

    wait_until(lambda: reason() == "platform_unreachable", "the job to wait for its platform")
    assert "certificate" in worker.log()
    assert trusting("jobs", "cancel", job_id).exit_code == 0
    assert worker.stop() == 0
    service.admin("repos", "set", "acme/shop", "--tags", "none")


@pytest.mark.parametrize("variable", ["AGENTJOBS_CA_FILE", "SSL_CERT_FILE"])
def test_variables_name_the_authority_for_commands(
    service: Service, proxy: TlsProxy, user: CommandLine, variable: str
) -> None:
    settings = {"AGENTJOBS_URL": proxy.url, "AGENTJOBS_API_KEY": service.key()}
    assert user.with_settings(**settings)("jobs", "list").exit_code == 2
    trusting = user.with_settings(**settings, **{variable: str(proxy.ca_file)})
    assert trusting("jobs", "list").exit_code == 0


def test_a_repository_with_a_certificate_of_the_authority_is_connected(
    service: Service, proxy: TlsProxy
) -> None:
    key = service.key("--git-write")
    url = proxy.url.replace("https://", f"https://key:{key}@") + "/git/default/acme/shop.git"
    service.admin("repos", "connect", url, "--name", "acme/copy")


def test_doctor_reaches_the_service_only_with_the_authority(
    service: Service, proxy: TlsProxy
) -> None:
    assert _address(service) == ("ok", f"{proxy.url} leads to this service")
    environment = {**service.environment, "AGENTJOBS_CA_FILE": ""}
    state, message = _address(dataclasses.replace(service, environment=environment))
    assert state == "problem"
    assert "has a certificate that is not trusted" in message


def _address(service: Service) -> tuple[str, str]:
    findings = json.loads(service.try_admin("doctor", "--json").stdout)["findings"]
    (address,) = [each for each in findings if each["subject"] == "address"]
    return address["state"], address["message"]
