"""Which files the agent `cve-fixer` can edit: its own table tells, so that the two never differ."""

from cve_fixer.fix import fixer_for

CVE_FIXER = "cve-fixer"


def can_fix(ecosystem: str, manifest: str) -> bool:
    return fixer_for(ecosystem, manifest) is not None
