"""The certificate bundle of agents, for operators with their own authority."""

from pathlib import Path

import pytest

from agentjobs_worker.sandbox.certificates import (
    create_bundle,
    known_system_files,
    with_certificates,
)
from agentjobs_worker.sandbox.protocol import SandboxTask

NOWHERE = Path("/nowhere")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.pem"
    path.write_text("OWN")
    return path


@pytest.fixture
def system(tmp_path: Path) -> Path:
    path = tmp_path / "system.pem"
    path.write_text("SYSTEM\n\n")
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    return path


def task(**environment: str) -> SandboxTask:
    return SandboxTask(
        argv=("true",),
        environment=environment,
        workspace=NOWHERE,
        run_dir=NOWHERE,
        timeout_seconds=1,
        slot=0,
        read_only=(Path("/opt/tool"),),
    )


def test_a_bundle_contains_the_systems_certificates_and_the_operators(
    own: Path, system: Path, data: Path
) -> None:
    bundle = create_bundle(own, data, [NOWHERE, data, system, own])
    assert bundle.read_text() == "SYSTEM\nOWN"
    assert bundle.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", None])
def test_the_systems_certificates_are_found_whatever_the_worker_trusts(
    own: Path, data: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    if variable:
        monkeypatch.setenv(variable, str(own))
    content = create_bundle(own, data).read_bytes()
    assert own not in known_system_files()
    assert content.count(b"BEGIN CERTIFICATE") > 1
    assert content.count(b"OWN") == 1


def test_a_machine_without_certificates_is_reported_with_the_package_to_install(
    own: Path, data: Path
) -> None:
    with pytest.raises(OSError, match="/nowhere") as raised:
        create_bundle(own, data, [NOWHERE])
    assert "install the package ca-certificates" in raised.value.strerror
    assert list(data.iterdir()) == []


def test_a_new_bundle_replaces_the_old_atomically(own: Path, system: Path, data: Path) -> None:
    with create_bundle(own, data, [system]).open() as directory:
        own.write_text("RENEWED")
        assert create_bundle(own, data, [system]).read_text() == "SYSTEM\nRENEWED"
        assert directory.read() == "SYSTEM\nOWN"
    assert [path.name for path in data.iterdir()] == ["certificates.pem"]


def test_a_bundle_that_cannot_be_replaced_leaves_no_temporary_file(
    own: Path, system: Path, data: Path
) -> None:
    (data / "certificates.pem").mkdir()
    with pytest.raises(OSError, match="directory"):
        create_bundle(own, data, [system])
    assert [path.name for path in data.iterdir()] == ["certificates.pem"]


def test_an_agent_sees_the_bundle_and_its_variables_unless_it_sets_its_own() -> None:
    bundle = Path("/data/certificates.pem")
    task_with_certificates = with_certificates(task(PIP_CERT="/own", A="b"), bundle)
    assert task_with_certificates.read_only == (Path("/opt/tool"), bundle)
    assert task_with_certificates.environment["SSL_CERT_FILE"] == str(bundle)
    assert task_with_certificates.environment["NODE_EXTRA_CA_CERTS"] == str(bundle)
    assert (
        task_with_certificates.environment["PIP_CERT"],
        task_with_certificates.environment["A"],
    ) == ("/own", "b")


def test_without_a_bundle_nothing_changes() -> None:
    plain = task()
    assert with_certificates(plain, None) is plain
