"""Creates the sandbox that the setting `sandbox` names."""

from agentjobs.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs.sandbox.limits import KIB
from agentjobs.sandbox.process import ProcessSandbox
from agentjobs.sandbox.protocol import Sandbox, SandboxUnavailable
from agentjobs.settings import Settings


def sandbox_for(settings: Settings) -> Sandbox:
    """Raises SandboxUnavailable."""
    if settings.uses_kubernetes:
        raise SandboxUnavailable('sandbox = "kubernetes" is not part of this version yet')
    disk_floor_bytes = settings.disk_floor_mib * 1024 * KIB
    if not settings.has_sandbox:
        return ProcessSandbox(disk_floor_bytes=disk_floor_bytes)
    return BubblewrapSandbox(settings.sandbox_uid_base, disk_floor_bytes=disk_floor_bytes)
