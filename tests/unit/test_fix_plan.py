"""What the fixer of vulnerabilities is asked for, and whether a commit did it: decisions alone."""

from typing import Any

import msgspec
import pytest

from agentjobs.advisories.choice import Choice
from agentjobs.advisories.exposure import find
from agentjobs.jobs.claim import ClaimedJob
from agentjobs.jobs.exposure import Exposure
from agentjobs.jobs.fix_plan import Fix, FixPlan, make_plan, wanted_findings
from agentjobs.jobs.model import Cause
from agentjobs.jobs.outcomes import Stopped
from agentjobs.jobs.recheck import faults_in, recheck
from agentjobs.repos.index.model import Dependency, IndexWarning
from tests.recorded_advisories import every_advisory

ADVISORIES = tuple(every_advisory())
REGISTRIES = {
    "PyPI": "https://packages.test/simple",
    "npm": "https://npm.test",
    "Go": "https://go.test",
}


def dependency(
    name: str, version: str, manifest: str = "requirements.txt", **more: Any
) -> Dependency:
    ecosystem = more.pop("ecosystem", "npm" if manifest.endswith(".json") else "PyPI")
    given = {"requirement": "", "direct": True, "scope": "runtime", **more}
    return Dependency(ecosystem=ecosystem, name=name, version=version, manifest=manifest, **given)


def exposed(*dependencies: Dependency, warnings: tuple[IndexWarning, ...] = ()) -> Exposure:
    return Exposure(dependencies, ADVISORIES, tuple(find(dependencies, ADVISORIES)), warnings)


def a_job(cause: Cause | None = None, **override: Any) -> ClaimedJob:
    return ClaimedJob(
        id="job_1",
        organization_id="org_1",
        organization="acme",
        repo_id="repo_1",
        repo="acme/shop",
        repo_is_connected=True,
        platform="local",
        default_branch="main",
        repo_head="0" * 40,
        agent="cve-fixer",
        ticket_id=None,
        config_override=override,
        fence=1,
        attempt=0,
        was_started_before=False,
        branch="agentjobs/cve-fixer/1",
        credential="",
        cause=cause,
    )


def planned(exposure: Exposure, choices: dict[str, str | None], job: ClaimedJob) -> FixPlan:
    findings = wanted_findings(job, exposure)
    chosen = {
        finding.package: Choice(choices[finding.name], "Because.", "registry", ("sha256:1",))
        for finding in findings
    }
    return make_plan(exposure, findings, chosen, REGISTRIES)


def test_a_vulnerable_package_becomes_one_fix_that_names_every_fault_once() -> None:
    before = exposed(dependency("requests", "2.25.0"), dependency("six", "1.16.0"))
    (fix,) = planned(before, {"requests": "2.31.0"}, a_job()).fixes
    document = msgspec.to_builtins(fix)
    assert (document["package"], document["from"], document["to"]) == (
        "requests",
        "2.25.0",
        "2.31.0",
    )
    assert document["registry"] == "https://packages.test/simple"
    assert document["hashes"] == ("sha256:1",)
    (advisory,) = document["advisories"]
    assert advisory["id"] == "GHSA-j8r2-6x86-q33q"
    assert {"PYSEC-2023-74", "CVE-2023-32681"} <= set(advisory["aliases"])
    assert advisory["severity"] == "medium"
    assert "2.31.0" in advisory["ranges"]


def test_what_is_below_the_asked_severity_is_left_alone_and_none_is_nothing() -> None:
    before = exposed(dependency("requests", "2.25.0"), dependency("pyyaml", "5.3"))
    fixes = planned(before, {"pyyaml": "5.4"}, a_job(auto_trigger_on_cve_severity="High")).fixes
    assert [fix.package for fix in fixes] == ["pyyaml"]
    for level in ("none", "NONE"):
        with pytest.raises(Stopped, match="severity none"):
            wanted_findings(a_job(auto_trigger_on_cve_severity=level), before)


def test_a_job_with_a_cause_looks_at_nothing_else_and_says_when_it_is_gone() -> None:
    cause = Cause("PyPI", "requests", ("2.25.0",), "requirements.txt", "2.31.0", ())
    before = exposed(
        dependency("requests", "2.25.0"),
        dependency("requests", "2.25.0", "tools/requirements.txt"),
        dependency("pyyaml", "5.3"),
    )
    (fix,) = planned(before, {"requests": "2.31.0"}, a_job(cause)).fixes
    assert fix.place == ("requirements.txt", "PyPI", "requests")
    with pytest.raises(Stopped, match=r"requests in requirements\.txt is not vulnerable on main"):
        wanted_findings(a_job(cause), exposed(dependency("requests", "2.31.0")))


def test_what_has_no_fix_or_stands_in_a_file_nobody_edits_is_told_and_not_attempted() -> None:
    before = exposed(dependency("requests", "2.25.0"), dependency("pyyaml", "5.3", "Pipfile.lock"))
    plan = planned(before, {"requests": "2.31.0", "pyyaml": "5.4"}, a_job())
    assert [fix.package for fix in plan.fixes] == ["requests"]
    (told,) = plan.left_out
    assert told.startswith("pyyaml 5.3 in Pipfile.lock is vulnerable (")
    assert "5.4 would end it" in told
    with pytest.raises(Stopped, match="Because"):
        planned(exposed(dependency("requests", "2.25.0")), {"requests": None}, a_job())


def test_a_transitive_package_comes_with_the_way_that_leads_there() -> None:
    before = exposed(
        dependency("minimist", "0.0.8", "package-lock.json", direct=False, parents=("mkdirp",))
    )
    (fix,) = planned(before, {"minimist": "0.2.4"}, a_job()).fixes
    assert (fix.direct, fix.parents) == (False, ("mkdirp",))


@pytest.fixture
def fixes() -> tuple[Fix, ...]:
    return planned(exposed(dependency("pyyaml", "5.3")), {"pyyaml": "5.4"}, a_job()).fixes


@pytest.mark.parametrize(
    ("after", "fault"),
    [
        ((dependency("pyyaml", "5.4"),), None),
        ((dependency("pyyaml", "5.3.1"),), "pyyaml 5.3.1 in requirements.txt is still vulnerable"),
        ((dependency("pyyaml", "3.10"),), "pyyaml went from 5.3 to 3.10"),
        ((dependency("pyyaml", "no version"),), "pyyaml went from 5.3 to no version"),
        ((), "requirements.txt does not name pyyaml any more"),
        (
            (dependency("pyyaml", "5.4"), dependency("requests", "2.25.0")),
            "The change brings in requests 2.25.0 in requirements.txt",
        ),
        # A file that was not to be touched is somebody else's matter.
        ((dependency("pyyaml", "5.4"), dependency("requests", "2.25.0", "b/uv.lock")), None),
    ],
)
def test_only_the_files_of_the_commit_tell_whether_it_is_mended(
    fixes: tuple[Fix, ...], after: tuple[Dependency, ...], fault: str | None
) -> None:
    before = exposed(dependency("pyyaml", "5.3"))
    faults = list(faults_in(fixes, before, exposed(*after)))
    assert bool(faults) == (fault is not None)
    if fault is not None:
        assert any(told.startswith(fault) for told in faults)
        with pytest.raises(Stopped) as stopped:
            recheck(fixes, before, exposed(*after))
        assert stopped.value.outcome.code == "still_vulnerable"


def test_a_file_that_cannot_be_read_any_more_proves_nothing(fixes: tuple[Fix, ...]) -> None:
    warning = IndexWarning("requirements.txt", "it is cut off")
    before = exposed(dependency("pyyaml", "5.3"))
    with pytest.raises(Stopped, match="cannot be read any more: it is cut off"):
        recheck(fixes, before, exposed(warnings=(warning,)))


def test_an_older_copy_that_was_there_before_is_no_downgrade() -> None:
    copies = (
        dependency("minimist", "1.2.0", "package-lock.json"),
        dependency("minimist", "0.2.4", "package-lock.json", direct=False, parents=("a",)),
    )
    before = exposed(*copies)
    fixes = planned(before, {"minimist": "1.2.6"}, a_job()).fixes
    after = exposed(dependency("minimist", "1.2.6", "package-lock.json"), copies[1])
    assert list(faults_in(fixes, before, after)) == []
