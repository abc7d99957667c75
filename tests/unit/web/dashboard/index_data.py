"""What an index and a scan leave behind in the house: packages, a graph, findings, a job for one.

Written straight into the store: this is about pages, not about how things are found.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from agentjobs.advisories.model import Advisory, Affected, AffectedRange, Event, Rating
from agentjobs.advisories.rows import put
from agentjobs.clock import now_ms
from agentjobs.identifiers import new_id
from agentjobs.inventory.graph.encoding import pack_graph
from agentjobs.inventory.model import IndexWarning, LanguageLines, ModuleGraph
from agentjobs.organizations.authentication import Caller
from tests.support.jobs import JobHarness
from tests.support.users import write
from tests.unit.web.dashboard.repository import Say

ADVISORY, RELATIVE = "GHSA-aaaa-bbbb-cccc", "PYSEC-2026-7"
MODULE = "src/shop.py"
# The first of those that are counted up by tests that want many.
FIRST = 1_000


async def put_index(
    harness: JobHarness, caller: Caller, repo_id: str, fixing_job: str, say: Say
) -> None:
    await _index(harness, repo_id, say)
    await _dependencies(harness, repo_id, say)
    await _findings(harness, caller, repo_id, say)
    await _job(harness, repo_id, fixing_job, say)


async def put_advisories(harness: JobHarness, say: Say) -> None:
    """Everybody's, and how fresh they are."""
    affected = Affected(
        "PyPI",
        say("requests"),
        (AffectedRange("ECOSYSTEM", (Event("introduced", "0"), Event("fixed", "2.31.0"))),),
        (say("1.0-odd"),),
    )
    rated = Rating("CVSS_V3", "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H")
    advisories = [
        Advisory(
            id=ADVISORY,
            modified="2026-01-02T00:00:00Z",
            published="2026-01-01T00:00:00Z",
            affected=(affected,),
            aliases=(RELATIVE, say("CVE-2026-1")),
            summary=say("Leaks a header"),
            ratings=(rated,),
            url=f"https://osv.dev/vulnerability/{ADVISORY}",
        ),
        Advisory(id=RELATIVE, modified="2026-01-01T00:00:00Z", affected=(affected,)),
    ]
    await harness.db.transact(put, "PyPI", 1_000_001, advisories)
    for ecosystem, error in (("PyPI", None), (say("npm"), say("the disk is away"))):
        await write(
            harness.db,
            "INSERT INTO advisory_feeds (ecosystem, source, records, synced_at, checked_at, error)"
            " VALUES (:ecosystem, '/srv/osv', 2, :now, :now, :error)",
            ecosystem=ecosystem,
            now=now_ms(),
            error=error,
        )


async def _index(harness: JobHarness, repo_id: str, say: Say) -> None:
    languages = [LanguageLines(say("Python"), 3, 90), LanguageLines("Markdown", 1, 10)]
    warnings = [IndexWarning(say("poetry.lock"), say("is no TOML"))]
    await write(
        harness.db,
        "UPDATE repos SET indexed_commit = :commit, languages = :languages,"
        " index_warnings = :warnings WHERE id = :id",
        id=repo_id,
        commit="c" * 40,
        languages=_json(languages),
        warnings=_json(warnings),
    )
    graph = ModuleGraph(
        files=(say("src/cart.py"), say(MODULE), say("src/tax.py")),
        edges=((0, 1), (1, 2)),
        externals=(say("requests"),),
        external_edges=((1, 0),),
    )
    await write(
        harness.db,
        "INSERT INTO repo_graphs (repo_id, commit_id, data) VALUES (:id, :commit, :data)",
        id=repo_id,
        commit="c" * 40,
        data=pack_graph(graph),
    )


async def _dependencies(harness: JobHarness, repo_id: str, say: Say) -> None:
    rows: Iterable[tuple[str, str | None, bool, list[str]]] = (
        (say("requests"), say("2.30.0"), True, []),
        (say("urllib3"), say("1.26.16"), False, [say("requests")]),
        (say("unpinned"), None, True, []),
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
            requirement=say(">=2") if direct else "",
            direct=direct,
            manifest=say("requirements.txt"),
            parents=_json(parents),
            purl=f"pkg:pypi/{at}",
        )


async def _findings(harness: JobHarness, caller: Caller, repo_id: str, say: Say) -> None:
    known = {"aliases": [RELATIVE], "severity": "critical", "score": 9.8, "ranges": say("< 2.31")}
    known |= {"summary": say("Leaks a header"), "url": "javascript:alert(1)", "fixed": ["2.31.0"]}
    rows: Iterable[tuple[str, str, str, str, str | None]] = (
        (ADVISORY, "requests", "2.30.0", "critical", say("2.31.0")),
        (say("GHSA-odd"), "urllib3", "1.26.16", "unknown", None),
    )
    for id_, name, version, severity, fix in rows:
        await write(
            harness.db,
            "INSERT INTO findings (id, organization_id, repo_id, manifest, ecosystem, name,"
            " version, direct, advisory_id, advisory_ids, severity, score, severity_source,"
            " summary, fix_version, fix_reason, first_seen_at) VALUES (:id, :organization_id,"
            " :repo_id, :manifest, 'PyPI', :name, :version, TRUE, :advisory_id, :advisory_ids,"
            " :severity, :score, :source, :summary, :fix, :reason, :now)",
            id=new_id("fnd"),
            organization_id=caller.organization_id,
            repo_id=repo_id,
            manifest=say("requirements.txt"),
            name=say(name),
            version=say(version),
            advisory_id=id_,
            advisory_ids=_json([{"id": id_, **known}]),
            severity=severity,
            score=9.8 if severity == "critical" else None,
            source=say("CVSS 3.1"),
            summary=say("Leaks a header"),
            fix=fix,
            reason=say("Nobody fixed it"),
            now=now_ms(),
        )


async def _job(harness: JobHarness, repo_id: str, job_id: str, say: Say) -> None:
    cause = {
        "ecosystem": "PyPI",
        "package": say("requests"),
        "versions": [say("2.30.0")],
        "manifest": say("requirements.txt"),
        "fix_version": say("2.31.0"),
        "advisories": [
            {"id": ADVISORY, "severity": "critical"},
            {"id": say("GHSA-odd"), "severity": "low"},
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
        manifest=say("requirements.txt"),
        name=say("requests"),
        fix=say("2.31.0"),
        job_id=job_id,
        now=now_ms(),
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
