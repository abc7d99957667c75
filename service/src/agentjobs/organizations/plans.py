"""Plans: their order, which decides the available agents, and their limits on concurrent jobs."""

from collections.abc import Sequence

from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import PlanTable


class Plans:
    """The plans of the settings, ranked by their order there."""

    def __init__(self, plans: Sequence[PlanTable]) -> None:
        self._plans = {plan.name: (rank, plan.concurrent_jobs) for rank, plan in enumerate(plans)}
        self._lowest = next(iter(self._plans.values()))

    @property
    def names(self) -> list[str]:
        return list(self._plans)

    @property
    def highest(self) -> str:
        return self.names[-1]

    def allows(self, plan: str, required: str) -> bool:
        return self._rank(plan) >= self._rank(required)

    def concurrent_jobs(self, plan: str) -> int:
        """A plan that was removed from the settings counts as the lowest one."""
        return self._plans.get(plan, self._lowest)[1]

    def check(self, plan: str) -> None:
        if plan not in self._plans:
            known = ", ".join(self._plans)
            raise Problem("unknown_plan", f"Unknown plan {plan!r}; choose one of: {known}.")

    def _rank(self, plan: str) -> int:
        return self._plans.get(plan, (0, 0))[0]
