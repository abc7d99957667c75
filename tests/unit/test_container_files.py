"""The files of the container image agree with each other and with the program."""

import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from agentjobs_runtime.settings import Settings
from tests.support.paths import PROJECT

DIRECTORY = PROJECT / "packaging" / "container"
CONTAINERFILE = (DIRECTORY / "Containerfile").read_text()
SETTINGS = {f"AGENTJOBS_{field.name.upper()}" for field in msgspec.structs.fields(Settings)}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DIRECTORY / "compose.yaml").read_text())
    return document


def instructions(name: str) -> list[str]:
    joined = CONTAINERFILE.replace("\\\n", " ")
    return [line.partition(" ")[2] for line in joined.splitlines() if line.startswith(f"{name} ")]


def test_what_the_image_copies_exists_and_is_not_ignored() -> None:
    kept = {
        line.removeprefix("!")
        for line in (PROJECT / ".containerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for arguments in instructions("COPY")
        if not arguments.startswith("--from")
        for source in arguments.split()[:-1]
    }
    assert copied == kept
    assert all((PROJECT / source).exists() for source in copied)
    assert Path(PROJECT / ".dockerignore").resolve() == PROJECT / ".containerignore"


def test_the_images_run_as_an_ordinary_user() -> None:
    assert instructions("FROM")[-2:] == ["runtime AS agent", "runtime AS service"]
    assert instructions("USER") == ["10001:10001", "10001:10001"]
    assert instructions("ENTRYPOINT") == ['["agentjobs"]']
    assert instructions("STOPSIGNAL") == ["SIGTERM"]
    assert "--uid 10001 " in CONTAINERFILE


def test_every_installation_is_without_recommended_packages_and_hashed() -> None:
    for command in instructions("RUN"):
        installs = command.count("apt-get install")
        assert command.count("--no-install-recommends") == installs
        assert installs == 0 or "apt-get update" in command
    assert CONTAINERFILE.count("pip --python /opt/agentjobs/bin/python install") == 2
    assert "install --require-hashes -r requirements.lock" in CONTAINERFILE


def test_variables_of_the_image_are_settings() -> None:
    names = set(re.findall(r"AGENTJOBS_[A-Z_]+(?==)", " ".join(instructions("ENV"))))
    assert names == {"AGENTJOBS_DATA_DIR", "AGENTJOBS_HOST"}
    assert names <= SETTINGS


def test_variables_of_compose_are_settings(compose: dict[str, Any]) -> None:
    names = {
        name
        for service in compose["services"].values()
        for name in service["environment"]
        if name.startswith("AGENTJOBS_")
    }
    assert len(names) > 4
    assert names <= SETTINGS


def test_compose_has_no_default_for_a_secret() -> None:
    text = (DIRECTORY / "compose.yaml").read_text()
    variables = set(re.findall(r"\$\{(\w+)(:.)", text))
    assert {name for name, kind in variables if kind == ":?"} == {
        "DOMAIN",
        "ENCRYPTION_KEY",
        "POSTGRES_PASSWORD",
    }
    assert {name for name, kind in variables if kind != ":?"} == {
        "HTTPS_PORT",
        "HTTP_PORT",
        "IMAGE",
        "SCHEME",
        "UNMASK_PROC",
    }


def test_services_of_compose_fit_together(compose: dict[str, Any]) -> None:
    services = compose["services"]
    commands = {name: service.get("command") for name, service in services.items()}
    assert commands == {
        "database": None,
        "api-1": ["serve"],
        "api-2": ["serve"],
        "worker-1": ["worker"],
        "worker-2": ["worker"],
        "proxy": None,
    }
    assert "reverse_proxy api-1:8080 api-2:8080" in (DIRECTORY / "Caddyfile").read_text()
    proxy = services["proxy"]["networks"]["default"]["ipv4_address"]
    assert services["api-1"]["environment"]["AGENTJOBS_TRUSTED_PROXIES"] == proxy
    mounted = {volume.split(":")[0] for each in services.values() for volume in each["volumes"]}
    assert mounted == {*compose["volumes"], "./Caddyfile"}
    for name in ("worker-1", "worker-2"):
        port = services[name]["environment"]["AGENTJOBS_METRICS_BIND"].rpartition(":")[2]
        assert services[name]["healthcheck"]["test"] == ["CMD", "probe", port]


@pytest.mark.parametrize("name", ["build", "probe"])
def test_scripts_are_valid_and_can_be_run(name: str) -> None:
    script = DIRECTORY / name
    assert script.stat().st_mode & 0o111 == 0o111
    if script.read_text().startswith("#!/usr/bin/env bash"):
        subprocess.run(["bash", "-n", script], check=True)
    else:
        compile(script.read_text(), script, "exec")
