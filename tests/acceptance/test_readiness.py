"""Workers claim only jobs they can run; a job that no worker can run says so."""

from pathlib import Path

from tests.support.service import Service, connected, wait_until

AGENTS = """
[[agents]]
id = "tool"
name = "Tool"
command = ["PROGRAM"]

[[agents]]
preset = "codex"
executable = "/nowhere/codex"
"""


def test_a_job_waits_for_a_worker_that_can_run_its_agent(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / "agentjobs.toml").write_text(AGENTS.replace("PROGRAM", str(program)))
    service = Service(data_dir).start()
    api = connected(service, tmp_path)
    waiting = api.create("acme/shop", "tool")
    wait_until(lambda: api.job(waiting)["queue_reason"] == "no_worker", "the reason it waits")
    assert api.finish("acme/shop", "lint-fixer")["status"] in ("completed", "failed")
    assert api.job(waiting)["status"] == "queued"
    assert "cannot run tool" in service.log()
    assert "cannot run codex" in service.log()
    doctor = service.try_admin("agents", "doctor")
    assert doctor.returncode == 1
    assert str(program) in doctor.stdout + doctor.stderr
    assert service.stop() == 0

    program.write_text("#!/bin/sh\necho done > made.txt\n")
    program.chmod(0o755)
    service.start()
    api = service.client(service.key())
    assert api.wait_status(waiting, "completed", "failed")["status"] == "completed"
    assert service.stop() == 0
