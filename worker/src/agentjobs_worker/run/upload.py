"""Packs the agent's finished work for the service, which publishes it."""

from agentjobs_runtime.mirrors.bundle import create_bundle
from agentjobs_runtime.mirrors.errors import UnsafeChange
from agentjobs_runtime.protocol.outcomes import Kept, KeptWork
from agentjobs_worker.link.publishing import FinishedWork
from agentjobs_worker.run.context import RunContext

_MAX_MIB = 512


async def pack_work(run: RunContext, work: FinishedWork) -> Kept:
    """Raises UnsafeChange if the work is too large, GitError and OSError."""
    bundle = await create_bundle(run.mirror, work.base, work.commit, _MAX_MIB * 1024**2)
    if bundle is None:
        raise UnsafeChange("unsafe_change", f"The change has more than {_MAX_MIB} MiB.")
    return Kept(KeptWork(work.base, work.commit, bundle))
