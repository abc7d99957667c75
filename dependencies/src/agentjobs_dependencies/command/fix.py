"""Fixes the vulnerable packages of a directory, with the versions that the service would choose."""

import asyncio
import os
from pathlib import Path

from agentjobs_dependencies.command.directory import read_exposure
from agentjobs_dependencies.fix_plan import MAX_CANDIDATES, Exposure, plan_fixes
from agentjobs_dependencies.fixes.download import DownloadFailed, download
from agentjobs_dependencies.fixes.fix import fix_all
from agentjobs_dependencies.recheck import faults_in
from agentjobs_dependencies.registries.all_registries import REGISTRY_APIS, parse_response
from agentjobs_dependencies.registries.api import InvalidPackageName
from agentjobs_dependencies.registries.versions import (
    InvalidResponse,
    Published,
    RegistryUnavailable,
)
from agentjobs_dependencies.version_choice import RegistryVersionChooser, choose_versions

# The name in the setting AGENTJOBS_REGISTRY_<NAME>_URL of the service; domain, host prefix and path
# of the public registry.
_REGISTRIES = {
    "PyPI": ("PYPI", "pypi.org", "", "/simple"),
    "npm": ("NPM", "npmjs.org", "registry.", ""),
    "Go": ("GO", "golang.org", "proxy.", ""),
    "crates.io": ("CRATES", "crates.io", "index.", ""),
    "Maven": ("MAVEN", "maven.org", "repo1.", "/maven2"),
    "RubyGems": ("RUBYGEMS", "rubygems.org", "", ""),
    "Packagist": ("PACKAGIST", "packagist.org", "repo.", ""),
}
_NOT_FOUND = (404, 410)


def fix_directory(root: Path, before: Exposure, source: Path) -> Exposure:
    """Edits files, prints what it did and what remains, and reads the directory again."""
    registry = _Registry()
    work = choose_versions(
        RegistryVersionChooser(registry), before.findings, before.advisories, MAX_CANDIDATES
    )
    plan = plan_fixes(before, before.findings, asyncio.run(work), registry.addresses)
    outcome = fix_all(plan.fixes, root)
    after = read_exposure(root, source)
    failed = {(failure.fix.manifest, failure.fix.package) for failure in outcome.failed}
    made = [fix for fix in plan.fixes if (fix.manifest, fix.package) not in failed]
    faults = dict.fromkeys(faults_in(made, before, after))
    for line in (*outcome.changes, *outcome.unproven, *plan.not_fixed, *faults):
        print(line)
    print(f"fixed: {len(outcome.fixed)}, known vulnerabilities left: {len(after.findings)}")
    return after


class _Registry:
    """Asks the registries for each package once per version of it."""

    def __init__(self) -> None:
        self.addresses = {
            ecosystem: os.environ.get(
                f"AGENTJOBS_REGISTRY_{name}_URL", f"https://{host}{domain}{path}"
            )
            for ecosystem, (name, domain, host, path) in _REGISTRIES.items()
        }

    async def fetch_published(self, ecosystem: str, name: str) -> Published:
        api = REGISTRY_APIS[ecosystem]
        try:
            url = self.addresses[ecosystem] + api.path_for(name)
            content = await asyncio.to_thread(download, url, api.max_bytes)
            return parse_response(ecosystem, name, "", content)
        except DownloadFailed as error:
            if error.status in _NOT_FOUND:
                return Published()
            raise RegistryUnavailable(str(error)) from None
        except (InvalidPackageName, InvalidResponse) as error:
            raise RegistryUnavailable(str(error)) from None

    async def published_at(self, *_: str) -> None:
        """Versions of any age are chosen."""
