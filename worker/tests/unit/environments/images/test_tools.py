"""The tools of images: what is missing, and a disk that is full."""

from pathlib import Path

import pytest

from agentjobs_worker.environments.images.tool_sandbox import is_disk_full, missing_tools
from agentjobs_worker.sandbox.disk import WHILE_NEARLY_FULL
from agentjobs_worker.sandbox.protocol import SandboxReport


def test_missing_tools_are_named_with_the_command_that_installs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "skopeo and umoci are not installed" in (missing_tools() or "")
    (tmp_path / "skopeo").touch(mode=0o755)
    reason = missing_tools()
    assert reason is not None
    assert reason.endswith("apt-get install -y umoci`")
    (tmp_path / "umoci").touch(mode=0o755)
    assert missing_tools() is None


@pytest.mark.parametrize(
    ("exceeded", "output", "is_full"),
    [
        (None, "write root/a: no space left on device", True),
        (f"512 MiB in the workspace {WHILE_NEARLY_FULL}", "", True),
        ("512 MiB in the workspace", "", False),
        (None, "invalid tar header", False),
    ],
)
def test_a_full_disk_is_not_the_images_fault(
    exceeded: str | None, output: str, is_full: bool
) -> None:
    code = None if exceeded else 1
    report = SandboxReport(
        exit_code=code, timed_out=False, exceeded=exceeded, last_lines=output, duration_ms=1
    )
    assert is_disk_full(report) == is_full
