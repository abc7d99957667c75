"""Which fixes cve-fixer is given, and whether a commit contains them. Pure functions."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from agentjobs.publishing.cve_fix.cve_fix import check_fixes
from agentjobs.publishing.cve_fix.fix_plan import findings_of_job, findings_to_fix, require_fixes
from agentjobs_dependencies.advisories.dependency_matching import match_dependencies
from agentjobs_dependencies.fix_plan import Exposure, FixPlan, job_entries, plan_fixes
from agentjobs_dependencies.fixes.model import Fix
from agentjobs_dependencies.model import Dependency, IndexWarning
from agentjobs_dependencies.recheck import faults_in
from agentjobs_dependencies.version_choice import Choice
from agentjobs_runtime.protocol.cause import Cause, CausingFix
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import JobFailed
from tests.support.recorded_advisories import every_advisory

ADVISORIES = tuple(every_advisory())
UNRATED = "medium"
REGISTRIES = {
    "PyPI": "https://packages.test/simple",
    "npm": "https://npm.test",
    "Go": "https://go.test",
    "Maven": "https://maven.test",
}


def dependency(
    name: str, version: str | None, manifest: str = "requirements.txt", **more: Any
) -> Dependency:
    ecosystem = more.pop("ecosystem", "npm" if manifest.endswith(".json") else "PyPI")
    given = {"requirement": "", "direct": True, "scope": "runtime", **more}
    return Dependency(ecosystem=ecosystem, name=name, version=version, manifest=manifest, **given)


def exposed(
    *dependencies: Dependency,
    warnings: tuple[IndexWarning, ...] = (),
    together: tuple[tuple[str, ...], ...] = (),
) -> Exposure:
    findings = tuple(match_dependencies(dependencies, ADVISORIES))
    return Exposure(dependencies, ADVISORIES, findings, warnings, together)


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
    findings = findings_to_fix(job, exposure, UNRATED)
    chosen = {
        finding.package: Choice(choices[finding.name], "Because.", "registry", ("sha256:1",))
        for finding in findings
    }
    return require_fixes(plan_fixes(exposure, findings, chosen, REGISTRIES))


def test_a_vulnerable_package_gets_one_fix_that_names_every_advisory_once() -> None:
    before = exposed(dependency("requests", "2.25.0"), dependency("six", "1.16.0"))
    (fix,) = planned(before, {"requests": "2.31.0"}, a_job()).fixes
    (document,) = job_entries([fix])["fixes"]
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


def test_findings_below_the_threshold_are_ignored_and_none_fixes_nothing() -> None:
    before = exposed(dependency("requests", "2.25.0"), dependency("pyyaml", "5.3"))
    fixes = planned(before, {"pyyaml": "5.4"}, a_job(auto_trigger_on_cve_severity="High")).fixes
    assert [fix.package for fix in fixes] == ["pyyaml"]
    for level in ("none", "NONE"):
        with pytest.raises(JobFailed, match="is none, so there is nothing"):
            findings_to_fix(a_job(auto_trigger_on_cve_severity=level), before, UNRATED)


def test_a_fix_names_the_published_package_that_sets_the_version() -> None:
    managed = dependency("requests", "2.25.0", managed_by="org.boot:bom:1")
    (fix,) = planned(exposed(managed), {"requests": "2.31.0"}, a_job()).fixes
    assert fix.managed_by == "org.boot:bom:1"


def test_fixtures_are_fixed_only_on_request() -> None:
    fixture = dependency("requests", "2.25.0", "examples/requirements.txt", fixture=True)
    before = exposed(fixture, dependency("pyyaml", "5.3"))
    assert {f.name for f in findings_to_fix(a_job(), before, UNRATED)} == {"pyyaml"}
    with pytest.raises(JobFailed, match=r"config_override\.fixtures"):
        findings_to_fix(a_job(), exposed(fixture), UNRATED)
    requested = findings_to_fix(a_job(fixtures=True), before, UNRATED)
    assert {f.name for f in requested} == {"pyyaml", "requests"}


def test_a_job_with_a_cause_fixes_nothing_else_and_fails_when_it_is_fixed() -> None:
    cause = Cause("PyPI", "requests", ("2.25.0",), "requirements.txt", "2.31.0", ())
    before = exposed(
        dependency("requests", "2.25.0"),
        dependency("requests", "2.25.0", "tools/requirements.txt"),
        dependency("pyyaml", "5.3"),
    )
    (fix,) = planned(before, {"requests": "2.31.0"}, a_job(cause)).fixes
    assert fix.location == ("requirements.txt", "PyPI", "requests")
    with pytest.raises(
        JobFailed, match=r"requests in requirements\.txt is no longer vulnerable on main"
    ):
        findings_to_fix(a_job(cause), exposed(dependency("requests", "2.31.0")), UNRATED)


def test_a_job_fixes_all_files_of_its_cause_and_what_is_installed_together_with_them() -> None:
    fixes = tuple(
        CausingFix("PyPI", "requests", ("2.25.0",), name, "2.31.0") for name in ("a.txt", "b.txt")
    )
    cause = Cause("PyPI", "requests", ("2.25.0",), "a.txt", "2.31.0", (), fixes)
    files = ("a.txt", "b.txt", "c.txt", "d.txt")
    before = exposed(
        *(dependency("requests", "2.25.0", name) for name in files),
        dependency("pyyaml", "5.3", "c.txt"),
        together=(("b.txt", "c.txt"),),
    )
    planned_fixes = planned(before, {"requests": "2.31.0"}, a_job(cause)).fixes
    assert [fix.manifest for fix in planned_fixes] == ["a.txt", "b.txt", "c.txt"]
    fixed = exposed(*(dependency("requests", "2.31.0", name) for name in files))
    with pytest.raises(JobFailed, match=r"requests in a\.txt and 1 more are no longer vulnerable"):
        findings_to_fix(a_job(cause), fixed, UNRATED)


def test_a_requested_job_fixes_files_installed_together_below_the_threshold_too() -> None:
    files = ("a.txt", "b.txt", "c.txt")
    before = exposed(
        *(dependency("pyyaml", "5.3", name) for name in files), together=(("a.txt", "b.txt"),)
    )
    findings = tuple(
        each if each.manifest == "a.txt" else msgspec.structs.replace(each, severity="low")
        for each in before.findings
    )
    before = msgspec.structs.replace(before, findings=findings)
    fixes = planned(before, {"pyyaml": "5.4"}, a_job(auto_trigger_on_cve_severity="high")).fixes
    assert [fix.manifest for fix in fixes] == ["a.txt", "b.txt"]


def test_a_commit_may_leave_out_a_file_unless_it_is_installed_together_with_a_fixed_one() -> None:
    files = ("a.txt", "b.txt", "c.txt")

    def commit(*versions: str, together: tuple[tuple[str, ...], ...] = ()) -> Exposure:
        pins = zip(files, versions, strict=True)
        pinned = (dependency("pyyaml", version, name) for name, version in pins)
        return exposed(*pinned, together=together)

    before = commit("5.3", "5.3", "5.3")
    fixes = planned(before, {"pyyaml": "5.4"}, a_job()).fixes
    assert check_fixes(fixes, before, commit("5.4", "5.4", "5.4")) == []
    left = check_fixes(fixes, before, commit("5.4", "5.4", "5.3"))
    assert [fix.manifest for fix in left] == ["c.txt"]
    for after in (commit("5.3", "5.3", "5.3"), commit("5.4", "5.4", "5.3.1")):
        with pytest.raises(JobFailed, match="still vulnerable"):
            check_fixes(fixes, before, after)
    together = commit("5.3", "5.3", "5.3", together=(("b.txt", "c.txt"),))
    with pytest.raises(JobFailed, match=r"5\.3 in c\.txt is still vulnerable"):
        check_fixes(fixes, together, commit("5.3", "5.4", "5.3"))
    assert len(check_fixes(fixes, together, commit("5.4", "5.3", "5.3"))) == 2


def test_findings_without_a_fix_or_editable_manifest_are_reported_not_fixed() -> None:
    before = exposed(dependency("requests", "2.25.0"), dependency("pyyaml", "5.3", "setup.cfg"))
    plan = planned(before, {"requests": "2.31.0", "pyyaml": "5.4"}, a_job())
    assert [fix.package for fix in plan.fixes] == ["requests"]
    (fault,) = plan.not_fixed
    assert fault.startswith("pyyaml 5.3 in setup.cfg is vulnerable (")
    assert "5.4 would fix it" in fault
    with pytest.raises(JobFailed, match="Because"):
        planned(exposed(dependency("requests", "2.25.0")), {"requests": None}, a_job())


def test_a_transitive_package_has_its_parents() -> None:
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
        ((), "requirements.txt no longer names a version of pyyaml"),
        ((dependency("pyyaml", None),), "pyyaml went from 5.3 to no fixed version"),
        (
            (dependency("pyyaml", "5.4"), dependency("requests", "2.25.0")),
            "The change introduces requests 2.25.0 in requirements.txt",
        ),
        # It may also have moved to another manifest.
        (
            (dependency("pyyaml", "5.4"), dependency("pyyaml", "5.3", "b/requirements.txt")),
            "The change introduces pyyaml 5.3 in b/requirements.txt",
        ),
    ],
)
def test_only_the_files_of_the_commit_prove_a_fix(
    fixes: tuple[Fix, ...], after: tuple[Dependency, ...], fault: str | None
) -> None:
    before = exposed(dependency("pyyaml", "5.3"))
    faults = list(faults_in(fixes, before, exposed(*after)))
    assert bool(faults) == (fault is not None)
    if fault is not None:
        assert any(text.startswith(fault) for text in faults)
        with pytest.raises(JobFailed) as stopped:
            check_fixes(fixes, before, exposed(*after))
        assert stopped.value.code == "still_vulnerable"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (("3.11", "5.4"), []),
        (("5.4",), []),
        (("3.11",), ["pyyaml went from 5.3 to 3.11 in requirements.txt."]),
        (("2.0", "5.4"), ["pyyaml went from 5.3 to 2.0 in requirements.txt."]),
    ],
)
def test_each_of_several_versions_may_have_its_own_fix(
    fixes: tuple[Fix, ...], after: tuple[str, ...], expected: list[str]
) -> None:
    both = (*fixes, replace(fixes[0], old="3.10", new="3.11"))
    before = exposed(dependency("pyyaml", "5.3"), dependency("pyyaml", "3.10"))
    commit = exposed(*(dependency("pyyaml", version) for version in after))
    faults = [fault for fault in faults_in(both, before, commit) if "went from" in fault]
    assert faults == expected


def test_a_manifest_that_can_no_longer_be_read_proves_nothing(fixes: tuple[Fix, ...]) -> None:
    warning = IndexWarning("requirements.txt", "it is cut off")
    before = exposed(dependency("pyyaml", "5.3"))
    with pytest.raises(JobFailed, match="can no longer be read: it is cut off"):
        check_fixes(fixes, before, exposed(warnings=(warning,)))


def test_a_module_may_get_the_version_of_its_parent() -> None:
    """The index lists it in the file that sets it."""
    name = "org.apache.logging.log4j:log4j-core"
    old = [
        Dependency("Maven", name, version, "", True, "runtime", manifest)
        for version, manifest in (("2.14.1", "pom.xml"), ("2.13.0", "web/pom.xml"))
    ]
    new = Dependency("Maven", name, "2.17.1", "", True, "runtime", "pom.xml")
    together = (("pom.xml", "web/pom.xml"),)
    before = exposed(*old, together=together)
    fixes = planned(before, {name: "2.17.1"}, a_job()).fixes
    assert len(fixes) == 2
    assert check_fixes(fixes, before, exposed(new, together=together)) == []
    with pytest.raises(JobFailed, match="no longer names a version"):
        check_fixes(fixes, before, exposed(new))


def test_earlier_warnings_are_not_blamed_on_the_change(fixes: tuple[Fix, ...]) -> None:
    unpinned = dependency("pyyaml", None)
    before = exposed(
        dependency("pyyaml", "5.3"),
        unpinned,
        warnings=(IndexWarning("requirements.txt", "line 2: no requirement"),),
    )
    later = (IndexWarning("requirements.txt", "line 3: no requirement"),)
    assert list(faults_in(fixes, before, exposed(dependency("pyyaml", "5.4"), unpinned))) == []
    fixed = exposed(dependency("pyyaml", "5.4"), unpinned, warnings=later)
    assert list(faults_in(fixes, before, fixed)) == []
    (fault,) = faults_in(fixes, before, exposed(unpinned))
    assert "no longer names a version of pyyaml" in fault


def test_an_advisory_published_during_the_run_is_not_blamed_on_the_change(
    fixes: tuple[Fix, ...],
) -> None:
    other = dependency("requests", "2.25.0", "b/requirements.txt")
    before = Exposure((dependency("pyyaml", "5.3"), other), (), ())
    assert list(faults_in(fixes, before, exposed(dependency("pyyaml", "5.4"), other))) == []


def test_a_deleted_lock_file_proves_nothing() -> None:
    before = exposed(dependency("urllib3", "2.0.5", "uv.lock", direct=False, parents=("requests",)))
    fixes = planned(before, {"urllib3": "2.0.6"}, a_job()).fixes
    (fault,) = faults_in(fixes, before, exposed(dependency("requests", None, "pyproject.toml")))
    assert fault == "uv.lock no longer names a version of urllib3."


def test_each_version_of_a_package_is_fixed_by_the_job_it_caused() -> None:
    new, old = (
        dependency("minimist", "1.2.0", "package-lock.json"),
        dependency("minimist", "0.0.8", "package-lock.json", direct=False, parents=("mkdirp",)),
    )
    before = exposed(new, old)
    goes_to = {"1.2.0": "1.2.6", "0.0.8": "0.2.4"}

    def fixes_for(version: str) -> list[tuple[str, str]]:
        job = a_job(Cause("npm", "minimist", (), "package-lock.json", version, ()))
        findings = findings_to_fix(job, before, UNRATED)
        choices = {
            each.package: Choice(goes_to[each.version], "Because.", "registry") for each in findings
        }
        plan = plan_fixes(before, findings_of_job(job, findings, choices), choices, REGISTRIES)
        fixed = exposed(dependency("minimist", "1.2.6", "package-lock.json"), old)
        if version == "1.2.6":
            assert list(faults_in(plan.fixes, before, fixed)) == []
            # Unless only the other version is left.
            assert list(faults_in(plan.fixes, before, exposed(old))) != []
        return [(fix.old, fix.new) for fix in plan.fixes]

    assert fixes_for("1.2.6") == [("1.2.0", "1.2.6")]
    assert fixes_for("0.2.4") == [("0.0.8", "0.2.4")]
    # If no finding has the version of the cause any more, all are fixed.
    assert len(fixes_for("9.9.9")) == 2


def test_an_older_copy_that_was_already_there_is_no_downgrade() -> None:
    copies = (
        dependency("minimist", "1.2.0", "package-lock.json"),
        dependency("minimist", "0.2.4", "package-lock.json", direct=False, parents=("a",)),
    )
    before = exposed(*copies)
    fixes = planned(before, {"minimist": "1.2.6"}, a_job()).fixes
    after = exposed(dependency("minimist", "1.2.6", "package-lock.json"), copies[1])
    assert list(faults_in(fixes, before, after)) == []
