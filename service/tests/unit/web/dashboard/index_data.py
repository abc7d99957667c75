"""Sample results of an index and a scan: packages, a graph, findings, and a job for one.

The rows are written directly, because these tests cover pages and not scans.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from agentjobs.advisories.rows import put
from agentjobs.organizations.authentication import Caller
from agentjobs_dependencies.advisories.model import Advisory, Affected, AffectedRange, Event, Rating
from agentjobs_dependencies.advisories.texts import AdvisoryText, Reference
from agentjobs_dependencies.graph.encoding import pack_graph
from agentjobs_dependencies.imports.model import ModuleGraph
from agentjobs_dependencies.languages import LanguageLines
from agentjobs_dependencies.model import IndexWarning
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from service.tests.unit.web.dashboard.repository import TextMaker
from tests.support.jobs import JobHarness
from tests.support.repo_rows import write_repos
from tests.support.users import write

ADVISORY, RELATIVE = "GHSA-aaaa-bbbb-cccc", "PYSEC-2026-7"
MODULE = "src/shop.py"
# Tests that need many rows count up from this one.
FIRST = 1_000


async def insert_index(
    harness: JobHarness, caller: Caller, repo_id: str, fixing_job: str, make_text: TextMaker
) -> str:
    """Returns the identifier of a finding that can be fixed."""
    await _index(harness, repo_id, make_text)
    await _dependencies(harness, repo_id, make_text)
    finding_id = await _findings(harness, caller, repo_id, make_text)
    await _job(harness, repo_id, fixing_job, make_text)
    return finding_id


async def insert_advisories(harness: JobHarness, make_text: TextMaker) -> None:
    """The shared advisories and the state of their feeds."""
    affected = Affected(
        "PyPI",
        make_text("requests"),
        (AffectedRange("ECOSYSTEM", (Event("introduced", "0"), Event("fixed", "2.31.0"))),),
        (make_text("1.0-odd"),),
    )
    rated = Rating("CVSS_V3", "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H")
    advisories = [
        Advisory(
            id=ADVISORY,
            modified="2026-01-02T00:00:00Z",
            published="2026-01-01T00:00:00Z",
            affected=(affected,),
            aliases=(RELATIVE, make_text("CVE-2026-1")),
            summary=make_text("Leaks a header"),
            ratings=(rated,),
            url=f"https://osv.dev/vulnerability/{ADVISORY}",
            text=AdvisoryText(
                details=make_text("Sends **headers** to others"),
                references=(
                    Reference("FIX", "https://github.test/fix?a=1&b=2"),
                    Reference("WEB", make_text("https://example.test/")),
                    Reference("WEB", "javascript:alert(1)"),
                ),
                weaknesses=("CWE-200",),
            ),
        ),
        Advisory(id=RELATIVE, modified="2026-01-01T00:00:00Z", affected=(affected,)),
    ]
    await harness.db.transact(put, "PyPI", 1_000_001, advisories)
    for ecosystem, error in (("PyPI", None), (make_text("npm"), make_text("the disk is away"))):
        await write(
            harness.db,
            "INSERT INTO advisory_feeds (ecosystem, source, records, synced_at, checked_at, error)"
            " VALUES (:ecosystem, '/srv/osv', 2, :now, :now, :error)",
            ecosystem=ecosystem,
            now=now_ms(),
            error=error,
        )


async def _index(harness: JobHarness, repo_id: str, make_text: TextMaker) -> None:
    languages = [LanguageLines(make_text("Python"), 3, 90), LanguageLines("Markdown", 1, 10)]
    warnings = [IndexWarning(make_text("poetry.lock"), make_text("is no TOML"))]
    await write_repos(
        harness.db,
        "indexed_commit = :commit, languages = :languages, index_warnings = :warnings",
        "r.id = :id",
        id=repo_id,
        commit="c" * 40,
        languages=_json(languages),
        warnings=_json(warnings),
    )
    graph = ModuleGraph(
        files=(make_text("src/cart.py"), make_text(MODULE), make_text("src/tax.py")),
        edges=((0, 1), (1, 2)),
        externals=(make_text("requests"),),
        external_edges=((1, 0),),
    )
    await write(
        harness.db,
        "INSERT INTO repo_graphs (repo_id, commit_id, data) VALUES (:id, :commit, :data)",
        id=repo_id,
        commit="c" * 40,
        data=pack_graph(graph),
    )


async def _dependencies(harness: JobHarness, repo_id: str, make_text: TextMaker) -> None:
    rows: Iterable[tuple[str, str | None, bool, list[str]]] = (
        (make_text("requests"), make_text("2.30.0"), True, []),
        (make_text("urllib3"), make_text("1.26.16"), False, [make_text("requests")]),
        (make_text("unpinned"), None, True, []),
    )
    for at, (name, version, direct, parents) in enumerate(rows):
        await write(
            harness.db,
            "INSERT INTO dependencies (repo_id, position, ecosystem, name, version, requirement,"
            " direct, scope, manifest, parents, purl) VALUES (:repo_id, :position, 'PyPI', :name,"
            " :version, :requirement, :direct, 'runtime', :manifest, :parents, :purl)",
            repo_id=repo_id,
            position=FIRST + at,
            name=name,
            version=version,
            requirement=make_text(">=2") if direct else "",
            direct=direct,
            manifest=make_text("requirements.txt"),
            parents=_json(parents),
            purl=f"pkg:pypi/{at}",
        )


async def _findings(harness: JobHarness, caller: Caller, repo_id: str, make_text: TextMaker) -> str:
    ids = [new_id("fnd"), new_id("fnd")]
    columns = {
        "aliases": [RELATIVE],
        "severity": "critical",
        "score": 9.8,
        "ranges": make_text("< 2.31"),
    }
    columns |= {
        "summary": make_text("Leaks a header"),
        "url": "javascript:alert(1)",
        "fixed": ["2.31.0"],
    }
    rows: Iterable[tuple[str, str, str, str, str | None]] = (
        (ADVISORY, "requests", "2.30.0", "critical", make_text("2.31.0")),
        (make_text("GHSA-odd"), "urllib3", "1.26.16", "unknown", None),
    )
    for finding_id, (id_, name, version, severity, fix) in zip(ids, rows, strict=True):
        await write(
            harness.db,
            "INSERT INTO findings (id, organization_id, repo_id, manifest, ecosystem, name,"
            " version, direct, advisory_id, advisory_ids, severity, score, severity_source,"
            " summary, fix_version, fix_reason, first_seen_at) VALUES (:id, :organization_id,"
            " :repo_id, :manifest, 'PyPI', :name, :version, TRUE, :advisory_id, :advisory_ids,"
            " :severity, :score, :source, :summary, :fix, :reason, :now)",
            id=finding_id,
            organization_id=caller.organization_id,
            repo_id=repo_id,
            manifest=make_text("requirements.txt"),
            name=make_text(name),
            version=make_text(version),
            advisory_id=id_,
            advisory_ids=_json([{"id": id_, **columns}]),
            severity=severity,
            score=9.8 if severity == "critical" else None,
            source=make_text("CVSS 3.1"),
            summary=make_text("Leaks a header"),
            fix=fix,
            reason=make_text("Nobody fixed it"),
            now=now_ms(),
        )
    return ids[0]


async def _job(harness: JobHarness, repo_id: str, job_id: str, make_text: TextMaker) -> None:
    cause = {
        "ecosystem": "PyPI",
        "package": make_text("requests"),
        "versions": [make_text("2.30.0")],
        "manifest": make_text("requirements.txt"),
        "fix_version": make_text("2.31.0"),
        "advisories": [
            {"id": ADVISORY, "severity": "critical"},
            {"id": make_text("GHSA-odd"), "severity": "low"},
        ],
    }
    await write(
        harness.db, "UPDATE jobs SET cause = :cause WHERE id = :id", id=job_id, cause=_json(cause)
    )
    await write(
        harness.db,
        "INSERT INTO auto_triggers (repo_id, manifest, ecosystem, name, fix_version, job_id,"
        " created_at) VALUES (:repo_id, :manifest, 'PyPI', :name, :fix, :job_id, :now)",
        repo_id=repo_id,
        manifest=make_text("requirements.txt"),
        name=make_text("requests"),
        fix=make_text("2.31.0"),
        job_id=job_id,
        now=now_ms(),
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
