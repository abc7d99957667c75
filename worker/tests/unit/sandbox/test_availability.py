"""What to do on a machine that cannot run environments."""

import platform
import sys
from pathlib import Path

import pytest

from agentjobs_worker.sandbox.availability import explain_layer_failure
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.protocol import SandboxUnavailable

DATA = Path("/srv/agentjobs")


def explain(message: str, proc: Path, *, release: str = "6.1.0-13", as_root: bool = True) -> str:
    return explain_layer_failure(message, DATA, as_root=as_root, release=release, proc=proc)


@pytest.mark.parametrize(("release", "as_root"), [("5.15.0-91-generic", True), ("5.10.0", False)])
def test_an_old_kernel_is_named_with_the_one_that_is_needed(
    tmp_path: Path, release: str, as_root: bool
) -> None:
    message = explain("cannot mount a layer", tmp_path, release=release, as_root=as_root)
    assert f"it has Linux {release}, and needs {'5.19' if as_root else '5.11'} or newer" in message


def test_a_kernel_that_suffices_for_ordinary_users_is_not_blamed(tmp_path: Path) -> None:
    assert "newer" not in explain("x", tmp_path, release="5.11.0", as_root=False)


def test_a_setting_that_forbids_user_namespaces_is_named_for_root_too(tmp_path: Path) -> None:
    setting = tmp_path / "sys/kernel/unprivileged_userns_clone"
    setting.parent.mkdir(parents=True)
    setting.write_text("0\n")
    assert "sysctl -w kernel.unprivileged_userns_clone=1" in explain("bwrap: x", tmp_path)


@pytest.mark.parametrize("step", ["mount a layer over /a with /b", "map the owner of a layer"])
def test_a_file_system_without_support_is_named(tmp_path: Path, step: str) -> None:
    message = explain(f"cannot {step}: Invalid argument", tmp_path)
    assert f"move the data directory {DATA}" in message
    assert "Invalid argument" in message


def test_another_failure_names_namespaces(tmp_path: Path) -> None:
    assert "--privileged" in explain("bwrap: setting up uid map", tmp_path)
    as_user = explain("bwrap: setting up uid map", tmp_path, as_root=False)
    assert "--security-opt seccomp=unconfined" in as_user


@pytest.mark.parametrize(
    ("machine", "maxsize", "name"),
    [
        ("armv7l", 2**31 - 1, "armv7l, 32-bit"),
        ("riscv64", 2**63 - 1, "riscv64, 64-bit"),
        # A 32-bit system on a 64-bit kernel, as some boards have it.
        ("aarch64", 2**31 - 1, "aarch64, 32-bit"),
    ],
)
async def test_without_a_filter_for_the_architecture_no_agent_runs(
    monkeypatch: pytest.MonkeyPatch, machine: str, maxsize: int, name: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "maxsize", maxsize)
    with pytest.raises(SandboxUnavailable) as error:
        await BubblewrapSandbox(900_000).probe()
    message = str(error.value)
    assert f"agents cannot run on this machine ({name})" in message
    assert "64-bit x86_64 and aarch64 only: run `agentjobs worker` on such a machine" in message
