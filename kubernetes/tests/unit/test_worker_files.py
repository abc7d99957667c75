import sys
from pathlib import Path
from typing import Any

import pytest

from agentjobs_kubernetes.worker_files import MAX_FILE_BYTES, copy_worker_files
from agentjobs_worker.sandbox.protocol import SandboxTask


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def task(run_dir: Path, **fields: Any) -> SandboxTask:
    values: dict[str, Any] = {
        "argv": ("true",),
        "environment": {},
        "workspace": run_dir.parent / "workspace",
        "run_dir": run_dir,
        "timeout_seconds": 1,
        "slot": 0,
    }
    return SandboxTask(**{**values, **fields})


def test_a_named_file_is_copied_and_named_where_the_copy_is(tmp_path: Path, run_dir: Path) -> None:
    certificates, script = tmp_path / "ca.pem", tmp_path / "agent.py"
    certificates.write_text("certificates")
    script.write_text("#!/usr/bin/python3\n")
    script.chmod(0o750)
    changed = copy_worker_files(
        task(
            run_dir,
            argv=(str(script), "--ca", str(certificates), f"{certificates}.old"),
            environment={"SSL_CERT_FILE": str(certificates), "NAME": "value"},
            read_only=(certificates, script),
        )
    )
    assert changed.argv == (
        "/run/agentjobs/files/1/agent.py",
        "--ca",
        "/run/agentjobs/files/0/ca.pem",
        f"{certificates}.old",
    )
    assert changed.environment == {
        "SSL_CERT_FILE": "/run/agentjobs/files/0/ca.pem",
        "NAME": "value",
    }
    assert changed.read_only == ()
    copies = [run_dir / "files/0/ca.pem", run_dir / "files/1/agent.py"]
    assert [copy.stat().st_mode & 0o777 for copy in copies] == [0o444, 0o555]
    assert copies[0].read_text() == "certificates"


def test_the_next_command_of_a_job_gets_the_file_as_it_is_then(
    tmp_path: Path, run_dir: Path
) -> None:
    file = tmp_path / "ca.pem"
    for content in ("first", "second"):
        file.write_text(content)
        copy_worker_files(task(run_dir, read_only=(file,)))
    assert (run_dir / "files/0/ca.pem").read_text() == "second"


def test_programs_directories_and_missing_files_are_left_to_the_image(
    tmp_path: Path, run_dir: Path
) -> None:
    large = tmp_path / "program"
    with large.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    left = (Path(sys.executable), Path("/usr/bin/env"), tmp_path, tmp_path / "missing", large)
    changed = copy_worker_files(task(run_dir, argv=(sys.executable,), read_only=left))
    assert (changed.argv, changed.read_only) == ((sys.executable,), ())
    assert not (run_dir / "files").exists()
