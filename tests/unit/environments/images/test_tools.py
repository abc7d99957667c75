"""What a worker without the tools of images is told."""

from pathlib import Path

import pytest

from agentjobs.environments.images.tool_sandbox import missing_tools


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
