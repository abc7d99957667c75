"""Creates the sandbox that the setting `sandbox` names."""

from agentjobs.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs.sandbox.process import ProcessSandbox
from agentjobs.sandbox.protocol import Sandbox
from agentjobs.settings import Settings


def sandbox_for(settings: Settings) -> Sandbox:
    if not settings.has_sandbox:
        return ProcessSandbox()
    return BubblewrapSandbox(settings.sandbox_uid_base)
