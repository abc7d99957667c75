"""What a job fixes, if vulnerable packages caused it: the packages and their upgrades."""

from typing import Annotated

import msgspec

from agentjobs_runtime.json_fields import doc, known_values

# As the package of advisories orders them.
LEVELS = ("unknown", "low", "medium", "high", "critical")


class CausingAdvisory(msgspec.Struct, frozen=True):
    """The advisory that represents all advisories about the same vulnerability."""

    id: Annotated[str, doc("The advisory that represents all of this vulnerability.")]
    severity: Annotated[str, known_values("How severe it is.", LEVELS)]
    aliases: Annotated[tuple[str, ...], doc("Other identifiers of the same vulnerability.")] = ()


class CausingFix(msgspec.Struct, frozen=True):
    """One upgrade of a package in one file."""

    ecosystem: Annotated[str, doc("Where the package is published, as OSV names it.")]
    package: Annotated[str, doc("The vulnerable package.")]
    versions: Annotated[tuple[str, ...], doc("The vulnerable versions in the file.")]
    manifest: Annotated[str, doc("The file that pins the version.")]
    fix_version: Annotated[str, doc("The version that no known advisory affects.")]


class Cause(msgspec.Struct, frozen=True):
    """Why the service created a job by itself: vulnerable packages and their upgrades."""

    ecosystem: Annotated[str, doc("Where the package is published, as OSV names it.")]
    package: Annotated[str, doc("The vulnerable package; with several, the most severe.")]
    versions: Annotated[tuple[str, ...], doc("The vulnerable versions in the file.")]
    manifest: Annotated[str, doc("The file that pins the version; with several, the first.")]
    fix_version: Annotated[str, doc("The version that no known advisory affects.")]
    advisories: Annotated[
        tuple[CausingAdvisory, ...],
        doc("The known advisories of all upgrades, most severe first."),
    ]
    fixes: Annotated[
        tuple[CausingFix, ...],
        doc("All upgrades, the most severe first; empty for jobs of earlier versions."),
    ] = ()

    @property
    def all_fixes(self) -> tuple[CausingFix, ...]:
        if self.fixes:
            return self.fixes
        of = (self.ecosystem, self.package, self.versions, self.manifest, self.fix_version)
        return (CausingFix(*of),)

    @property
    def summary(self) -> str:
        """The upgrade in short, such as `requests to 2.31.0`."""
        packages = {(fix.ecosystem, fix.package) for fix in self.all_fixes}
        if len(packages) > 1:
            return f"{self.package} and {len(packages) - 1} more"
        versions = dict.fromkeys(fix.fix_version for fix in self.all_fixes)
        return f"{self.package} to {', '.join(versions)}"


def stored_cause(text: str | None) -> Cause | None:
    return None if text is None else msgspec.json.decode(text, type=Cause)
