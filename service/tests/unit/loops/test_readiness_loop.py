"""Which agents a worker offers."""

from agentjobs_runtime.protocol.worker_info import WorkerInfo
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.tables import AgentTable
from agentjobs_worker.agents.catalog import build_catalog
from agentjobs_worker.loops.readiness_loop import find_ready_agents


async def test_a_worker_offers_only_agents_whose_tags_it_has() -> None:
    tables = (
        AgentTable(id="any", name="Any", command=["sh"]),
        AgentTable(id="gpu", name="GPU", command=["sh"], tags=["gpu"]),
        AgentTable(id="both", name="Both", command=["sh"], tags=["gpu", "large"]),
    )
    catalog = build_catalog(Settings(data_dir="/nowhere", agents=tables))
    worker = WorkerInfo("wrk_a", "host", 1, [], tags=["gpu", "fast"])
    await find_ready_agents(catalog, worker, in_sandbox=True, image=None)
    assert {"any", "gpu"} <= set(worker.agents)
    assert "both" not in worker.agents
    assert worker.unready["both"].startswith("it requires a worker with the tags large")
