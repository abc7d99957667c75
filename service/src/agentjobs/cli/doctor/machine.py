"""Checks of `agentjobs doctor` on the programs and settings of this machine."""

from agentjobs.app.settings_checks import FEATURE_CHECKS
from agentjobs.cli.doctor.finding import Finding
from agentjobs.worker_part.agents import build_catalog
from agentjobs.worker_part.machine import (
    TOOLS,
    SandboxDescription,
    check_installed,
    describe_sandbox,
    missing_tools,
)
from agentjobs_runtime.git import version
from agentjobs_runtime.outbound.guard.sessions import load_tls_context
from agentjobs_runtime.settings import Settings, SettingsError


async def check_git() -> list[Finding]:
    try:
        return [Finding("git", "ok", f"git {await version.check_git()}")]
    except version.UnsuitableGit as error:
        return [Finding("git", "problem", str(error))]


async def check_sandbox_and_agents(settings: Settings) -> list[Finding]:
    description = await describe_sandbox(settings)
    findings = _describe(settings, description)
    if settings.uses_kubernetes and not description.runs_as:
        reason = "only a pod can tell which of them the image has, and none runs yet"
        return [*findings, Finding("agents", "note", reason)]
    return findings + await _check_agents(settings)


def _describe(settings: Settings, description: SandboxDescription) -> list[Finding]:
    findings = [Finding("sandbox", "ok", f"{description.kind} {description.version}".strip())]
    findings += [
        Finding("sandbox", "ok", f"{what} {text}".strip())
        for what, text in (
            ("agents run as", description.runs_as),
            ("system calls:", description.seccomp),
            ("limits are enforced by", description.limits),
            ("repositories can have an environment:", description.environments),
            ("", description.network),
        )
        # A cluster that does not answer says nothing of them.
        if text
    ]
    if description.environments and not settings.uses_kubernetes:
        findings.append(_check_image_tools())
    findings += [Finding("sandbox", "note", note) for note in description.notes]
    return findings + [Finding("sandbox", "problem", problem) for problem in description.problems]


def _check_image_tools() -> Finding:
    if (reason := missing_tools()) is not None:
        return Finding("images", "note", f"environments cannot have an image: {reason}")
    return Finding("images", "ok", f"images are pulled and unpacked by {' and '.join(TOOLS)}")


def check_network_settings(settings: Settings) -> list[Finding]:
    """Settings that are otherwise read only when a worker starts."""
    certificates = ("network", lambda _: load_tls_context(settings.ca_file))
    findings: list[Finding] = []
    for subject, check in (*FEATURE_CHECKS, certificates):
        try:
            check(settings)
        except (ValueError, SettingsError) as error:
            findings.append(Finding(subject, "problem", str(error)))
    if settings.egress_allow and not findings:
        findings.append(
            Finding("network", "note", f"agents can reach {', '.join(settings.egress_allow)}")
        )
    return findings


async def _check_agents(settings: Settings) -> list[Finding]:
    findings: list[Finding] = []
    agents = build_catalog(settings).all()
    checked = await check_installed(settings, agents)
    for agent, readiness in zip(agents, checked, strict=True):
        version = f" {readiness.version}" if readiness.version else ""
        text = f"{agent.id}{version}"
        if readiness.reason is None:
            findings.append(Finding("agents", "ok", f"{text} is ready"))
        else:
            findings.append(Finding("agents", "problem", f"{text}: {readiness.reason}"))
    return findings
