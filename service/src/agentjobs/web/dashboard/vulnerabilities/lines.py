"""Findings and vulnerable packages with what fixes them: jobs and pull requests."""

from collections.abc import Sequence

import msgspec

from agentjobs.advisories.decisions import Decision
from agentjobs.advisories.findings import FindingView
from agentjobs.advisories.packages import VulnerablePackage
from agentjobs.jobs.operations.auto_trigger_rows import TriggeredJob, jobs_for_findings
from agentjobs.jobs.operations.proposed_fixes import ProposingPull, pulls_for_findings
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_dependencies.fixes.fix import can_fix

# What may change lines.
LIVE_TOPICS = ("findings", "index")
_ACTIVE = ("queued", "running")


class Line(msgspec.Struct, frozen=True):
    """`pull` is an open pull request that has the fix although no job proposed it."""

    finding: FindingView
    job: TriggeredJob | None
    pull: ProposingPull | None = None

    @property
    def is_waiting(self) -> bool:
        """A fix exists that no job and no pull request proposes. Fixtures wait for nothing, and
        neither does what was dismissed."""
        is_proposed = self.job is not None or self.pull is not None
        finding = self.finding
        is_wanted = not finding.fixture and finding.decision is None
        return finding.fix_version is not None and not is_proposed and is_wanted

    @property
    def is_fixable(self) -> bool:
        """Whether a job can be started that fixes it."""
        finding, job = self.finding, self.job
        is_active = job is not None and (job.status in _ACTIVE or job.pr_state == "open")
        return (
            finding.fix_version is not None
            and not is_active
            and self.pull is None
            and can_fix(finding.ecosystem, finding.manifest)
        )


class PackageLine(msgspec.Struct, frozen=True):
    package: VulnerablePackage
    lines: Sequence[Line]

    @property
    def versions(self) -> list[str]:
        return _unique([line.finding.version for line in self.lines])

    @property
    def manifests(self) -> list[str]:
        return _unique([line.finding.manifest for line in self.lines])

    @property
    def fix_versions(self) -> list[str]:
        return _unique([line.finding.fix_version or "" for line in self.lines])

    @property
    def advisories(self) -> list[FindingView]:
        """One finding of each vulnerability, worst first."""
        return list(
            {finding.advisory_id: finding for finding in self.package.findings[::-1]}.values()
        )[::-1]

    @property
    def jobs(self) -> list[TriggeredJob]:
        return list({line.job.job_id: line.job for line in self.lines if line.job}.values())

    @property
    def pulls(self) -> list[ProposingPull]:
        return list({line.pull.url: line.pull for line in self.lines if line.pull}.values())

    @property
    def decisions(self) -> list[Decision]:
        decisions = [finding.decision for finding in self.package.findings]
        return list(dict.fromkeys(decision for decision in decisions if decision is not None))

    @property
    def is_open(self) -> bool:
        return any(finding.decision is None for finding in self.package.findings)

    @property
    def is_fixable(self) -> bool:
        return any(line.is_fixable for line in self.lines)

    @property
    def is_waiting(self) -> bool:
        return any(line.is_waiting for line in self.lines)


async def load_lines(request: PageRequest, findings: Sequence[FindingView]) -> list[Line]:
    jobs = await jobs_for_findings(request.db, findings)
    pulls = await pulls_for_findings(request.db, findings)
    return [Line(finding, jobs.get(finding.id), pulls.get(finding.id)) for finding in findings]


async def load_package_lines(
    request: PageRequest, packages: Sequence[VulnerablePackage]
) -> list[PackageLine]:
    lines = await load_lines(
        request, [finding for package in packages for finding in package.findings]
    )
    by_finding = {line.finding.id: line for line in lines}
    return [
        PackageLine(package, [by_finding[finding.id] for finding in package.findings])
        for package in packages
    ]


def _unique(texts: Sequence[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]
