"""The steps of a run that only the agent `cve-fixer` has: choosing fixes and proving them.

Only the files of the proposed commit count as proof, never what the agent reports.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentjobs.advisories.scans import load_advisories
from agentjobs.inventory.indexing import read_dependencies
from agentjobs.jobs.operations.auto_trigger_rows import take_over_fixes
from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.cve_fix.fix_plan import findings_of_job, findings_to_fix, require_fixes
from agentjobs.publishing.cve_fix.proposed import leave_out_proposed
from agentjobs.publishing.hosted_repo import HostedRepo
from agentjobs_dependencies.advisories.dependency_matching import match_dependencies
from agentjobs_dependencies.fix_plan import MAX_CANDIDATES, Exposure, job_entries, plan_fixes
from agentjobs_dependencies.fixes.model import Fix
from agentjobs_dependencies.recheck import faults_in, fixes_left_out
from agentjobs_dependencies.version_choice import choose_versions
from agentjobs_runtime.agents.definitions import CVE_FIXER
from agentjobs_runtime.git.remote import strip_credentials
from agentjobs_runtime.outbound.registry_hosts import hosts_for
from agentjobs_runtime.protocol.outcomes import JobFailed
from agentjobs_runtime.settings.registries import ECOSYSTEMS

_MAX_FAULTS = 5


@dataclass(frozen=True, slots=True)
class CveFix:
    """The fixes of one run. Empty, and without effect, for every other agent."""

    run: ServiceRun
    fixes: tuple[Fix, ...] = ()
    before: Exposure | None = None

    @property
    def job_file_entries(self) -> dict[str, Any]:
        return {} if self.before is None else job_entries(self.fixes)

    def narrow(self, network: tuple[str, ...]) -> tuple[str, ...]:
        """Limits the agent's hosts to the package registries that the fixes need."""
        if self.before is None:
            return network
        ecosystems = {fix.ecosystem for fix in self.fixes}
        hosts = {host for name in ecosystems for host in hosts_for(self.run.settings, name)}
        return tuple(host for host in network if host in hosts)

    async def verify(self, commit: str) -> None:
        """Raises JobFailed when the commit does not fix what it was made for."""
        if self.before is None:
            return
        after = await read_exposure(self.run, commit)
        left = check_fixes(self.fixes, self.before, after)
        for fix in left:
            self.run.log.note(f"{fix.package} {fix.old} in {fix.manifest} is not fixed")
        proposed = [fix.key for fix in self.fixes if fix not in left]
        # A fix that was requested is not proposed again by itself.
        await take_over_fixes(self.run.db, self.run.job.repo_id, self.run.job.id, proposed)
        self.run.log.note("no known vulnerability affects the proposed versions")


async def plan_cve_fix(run: ServiceRun, repo: HostedRepo, base: str) -> CveFix:
    """Raises JobFailed when nothing is vulnerable, nothing can be fixed, or all of it is already
    proposed."""
    if run.job.agent != CVE_FIXER:
        return CveFix(run)
    before = await read_exposure(run, base)
    findings = findings_to_fix(run.job, before, run.settings.unrated_severity)
    choices = await choose_versions(run.tools.chooser, findings, before.advisories, MAX_CANDIDATES)
    findings = findings_of_job(run.job, findings, choices)
    # Credentials in a registry's address belong to the service, not to the agent.
    registries = {name: strip_credentials(run.settings.registry_url(name)) for name in ECOSYSTEMS}
    plan = require_fixes(plan_fixes(before, findings, choices, registries))
    fixes = await leave_out_proposed(run, repo, base, plan.fixes, before)
    for reason in plan.not_fixed:
        run.log.note(reason)
    for fix in fixes:
        run.log.note(
            f"{fix.package} {fix.old} in {fix.manifest} is upgraded to {fix.new}: {fix.why}"
        )
    return CveFix(run, fixes, before)


async def read_exposure(run: ServiceRun, commit: str) -> Exposure:
    """The dependencies of a commit and their known vulnerabilities, read from its own files: the
    index may describe another commit and never describes the agent's.

    Raises IndexFailure when the manifests cannot be read.
    """
    reading = await read_dependencies(run.mirror, commit, run.settings, run.tools.poms)
    advisories = await load_advisories(run.db, reading.dependencies)
    findings = await asyncio.to_thread(match_dependencies, reading.dependencies, advisories)
    return Exposure(
        reading.dependencies,
        tuple(advisories),
        tuple(findings),
        reading.warnings,
        reading.installed_together,
    )


def check_fixes(fixes: Sequence[Fix], before: Exposure, after: Exposure) -> list[Fix]:
    """Return the fixes that the commit leaves out. Raises JobFailed with what is wrong."""
    left = fixes_left_out(fixes, before, after)
    faults = list(dict.fromkeys(faults_in([f for f in fixes if f not in left], before, after)))
    if faults:
        message = " ".join(faults[:_MAX_FAULTS])
        if len(faults) > _MAX_FAULTS:
            message += f" And {len(faults) - _MAX_FAULTS} more."
        raise JobFailed("still_vulnerable", message)
    return left
