"""pnpm-lock.yaml as text, in every format."""

from pathlib import Path

import pytest

from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.pnpm import text as pnpm_text
from agentjobs_dependencies.fixes.pnpm.catalogs import update_catalog
from agentjobs_dependencies.fixes.pnpm.release import find_releases

LOCK = """\
lockfileVersion: '9.0'

catalogs:
  default:
    a:
      specifier: ^1.0.0
      version: 1.0.0

importers:

  .: {}

  packages/m:
    dependencies:
      a:
        specifier: 'catalog:'
        version: 1.0.0
      alias:
        specifier: npm:a@^1
        version: a@1.0.0

packages:

  '@s/p@1.0.0':
    resolution: {integrity: x}

  a@1.0.0:
    resolution: {integrity: x}

  peer@1.0.0:
    resolution: {integrity: x}
    peerDependencies:
      a: '*'

snapshots:

  '@s/p@1.0.0(peer@1.0.0(a@1.0.0))':
    dependencies:
      a: 1.0.0
      peer: 1.0.0(a@1.0.0)

  a@1.0.0: {}

  peer@1.0.0(a@1.0.0):
    dependencies:
      a: 1.0.0
"""


def test_requirements_in_a_pnpm_lock_exclude_peers() -> None:
    directs = pnpm_text.directs(LOCK, "a", "1.0.0")
    assert [(direct.importer, direct.name, direct.spec) for direct in directs] == [
        ("packages/m", "a", "catalog:"),
        ("packages/m", "alias", "npm:a@^1"),
    ]
    assert [(parent.id, parent.name) for parent in pnpm_text.parents(LOCK, "a", "1.0.0")] == [
        ("@s/p@1.0.0", "a")
    ]
    assert pnpm_text.directs(LOCK, "a", "2.0.0") == []


def test_a_catalog_is_updated_in_both_files_and_its_range_only_if_necessary() -> None:
    workspace = "catalog:\n  a: ^1.0.0 # ours\n"
    same, lock = update_catalog(workspace, LOCK, LOCK, "default", "a", "1.2.0")
    assert same == workspace
    assert lock == LOCK.replace("^1.0.0\n      version: 1.0.0", "^1.0.0\n      version: 1.2.0")
    raised, lock = update_catalog(workspace, LOCK, LOCK, "default", "a", "2.0.0")
    assert raised == "catalog:\n  a: ^2.0.0 # ours\n"
    assert "      specifier: ^2.0.0\n      version: 2.0.0\n" in lock


def test_pnpms_changes_are_applied_to_a_lock_file_of_another_release() -> None:
    old = LOCK.replace("integrity: x", "integrity: x, tarball: t").replace(
        "importers:", "time:\n  a@1.0.0: '2020'\n\nimporters:"
    )
    after = LOCK.replace("  a@1.0.0:\n", "  a@1.2.0:\n").replace("  a@1.0.0: {}", "  a@1.2.0: {}")
    merge = pnpm_text.merge(old, LOCK, after)
    assert merge == old.replace(
        "  a@1.0.0:\n    resolution: {integrity: x, tarball: t}",
        "  a@1.2.0:\n    resolution: {integrity: x}",
    ).replace("  a@1.0.0: {}", "  a@1.2.0: {}")
    assert pnpm_text.merge(LOCK, LOCK, after) == after
    assert pnpm_text.has_same_entries(old, LOCK)
    assert not pnpm_text.has_same_entries(old, LOCK.replace("peer@1.0.0(a@1.0.0):", "peer@1.0.0:"))


LOCK_5 = """\
lockfileVersion: 5.4

importers:

  .:
    specifiers: {}

  packages/m:
    specifiers:
      a: ^1.0.0
      alias: npm:a@^1
    dependencies:
      a: 1.0.0
    devDependencies:
      alias: /a/1.0.0

packages:

  /@s/p/1.0.0_peer@1.0.0:
    resolution: {integrity: x}
    peerDependencies:
      peer: '*'
    dependencies:
      a: 1.0.0
      peer: 1.0.0_a@1.0.0
    dev: false

  /a/1.0.0:
    resolution: {integrity: x}

  /peer/1.0.0_a@1.0.0:
    resolution: {integrity: x}
    peerDependencies:
      a: 1.0.0
    dependencies:
      a: 1.0.0
"""
LOCK_6 = """\
lockfileVersion: '6.0'

settings:
  autoInstallPeers: true

dependencies:
  '@s/p':
    specifier: ^1.0.0
    version: 1.0.0(peer@1.0.0)

devDependencies:
  alias:
    specifier: npm:a@^1
    version: /a@1.0.0

packages:

  /@s/p@1.0.0(peer@1.0.0):
    resolution: {integrity: x}
    peerDependencies:
      peer: '*'
    dependencies:
      a: 1.0.0
      peer: 1.0.0(a@1.0.0)

  /a@1.0.0:
    resolution: {integrity: x}

  /peer@1.0.0(a@1.0.0):
    resolution: {integrity: x}
    peerDependencies:
      a: '*'
    dependencies:
      a: 1.0.0
"""


@pytest.mark.parametrize(
    ("lock", "lock_format", "expected"),
    [
        (LOCK_5, "5.4", [("packages/m", "a", "^1.0.0"), ("packages/m", "alias", "npm:a@^1")]),
        (LOCK_6, "6.0", [(".", "alias", "npm:a@^1")]),
    ],
)
def test_older_formats_of_pnpm_locks_are_read(
    lock: str, lock_format: str, expected: list[tuple[str, str, str]]
) -> None:
    assert pnpm_text.lock_format(lock) == lock_format
    assert pnpm_text.packages(lock) == {("@s/p", "1.0.0"), ("a", "1.0.0"), ("peer", "1.0.0")}
    directs = pnpm_text.directs(lock, "a", "1.0.0")
    assert [(direct.importer, direct.name, direct.spec) for direct in directs] == expected
    parents = pnpm_text.parents(lock, "a", "1.0.0")
    assert [(parent.id, parent.name) for parent in parents] == [("@s/p@1.0.0", "a")]


def test_a_format_of_which_no_release_of_pnpm_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotFix, match=r"format 5\.2, .* with pnpm 6 or newer"):
        next(find_releases("5.2", None, tmp_path, ""))
