"""The hosts that setup may reach, of the service and of an organization."""

from pathlib import Path
from typing import Any

import pytest

from agentjobs.environments.setup_network import (
    check_organization_hosts,
    check_setup_network,
    setup_hosts,
)
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings, SettingsError, load


def settings(**values: Any) -> Settings:
    return Settings(data_dir="/nowhere", **values)


def test_the_default_has_public_registries_and_configured_ones() -> None:
    hosts = setup_hosts(
        settings(
            registry_pypi_url="https://mirror.test/simple",
            registry_npm_url="http://npm.test:4873/",
            registry_go_url="http://localhost:3000",
            registry_hosts=["*.files.test"],
        ),
        None,
    )
    assert {"pypi.org", "files.pythonhosted.org", "static.crates.io", "sum.golang.org"} <= set(
        hosts
    )
    assert {"mirror.test", "npm.test:4873", "*.files.test"} <= set(hosts)
    assert not any("localhost" in host for host in hosts)
    assert len(set(hosts)) == len(hosts)


def test_the_operator_replaces_the_default_or_adds_to_it() -> None:
    assert setup_hosts(settings(setup_network=("a.test",)), None) == ("a.test",)
    assert setup_hosts(settings(setup_network=()), None) == ()
    both = setup_hosts(settings(setup_network=("registries", "a.test")), None)
    assert {"pypi.org", "a.test"} < set(both)


def test_a_variable_sets_the_hosts(tmp_path: Path) -> None:
    environ = {"AGENTJOBS_SETUP_NETWORK": "a.test, b.test:8443"}
    loaded = load(environ, data_dir=str(tmp_path))
    check_setup_network(loaded)
    assert setup_hosts(loaded, None) == ("a.test", "b.test:8443")


def test_an_organization_narrows_the_hosts_and_never_widens_them() -> None:
    service = settings(setup_network=("a.test", "*.b.test"))
    assert setup_hosts(service, ("x.b.test", "a.test:443")) == ("x.b.test", "a.test:443")
    assert setup_hosts(service, ("evil.test", "*.test", "a.test:22")) == ()
    assert setup_hosts(service, ()) == ()
    assert setup_hosts(service, ("registries",)) == ()
    assert "pypi.org" in setup_hosts(settings(), ("registries",))


def test_invalid_hosts_of_the_service_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"setup_network: 'https://a.test' is a URL"):
        check_setup_network(settings(setup_network=("https://a.test",)))


@pytest.mark.parametrize(
    ("hosts", "reason"),
    [
        (("a.test", "b.test"), "b.test: not allowed by the setting setup_network"),
        (("not a host",), "is not a host"),
    ],
)
def test_hosts_that_an_organization_cannot_have_are_named(
    hosts: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(Problem, match=reason):
        check_organization_hosts(settings(setup_network=("a.test",)), hosts)
