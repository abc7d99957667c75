"""The command `agentjobs-dependencies` on small projects, with the code that the service runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentjobs_dependencies.command import fix as fix_command
from agentjobs_dependencies.command.main import main
from agentjobs_dependencies.fixes.download import DownloadFailed
from tests.support.osv_records import CVSS_HIGH, record

GO_MOD = "module example.com/shop\n\nrequire golang.org/x/text v0.3.7\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "shop"
    project.mkdir()
    (project / "requirements.txt").write_text("shelf==1.0\nsix==1.16.0\n")
    (project / "shop.py").write_text("import shelf\n")
    return project


@pytest.fixture
def advisories(tmp_path: Path) -> Path:
    directory = tmp_path / "osv"
    for ecosystem, package, fixed in (
        ("PyPI", "shelf", "2.0"),
        ("Go", "golang.org/x/text", "0.3.8"),
    ):
        folder = directory / ecosystem
        folder.mkdir(parents=True)
        fields = {"ecosystem": ecosystem, "vector": CVSS_HIGH, "aliases": [f"CVE-{ecosystem}"]}
        entry = record(f"GHSA-{ecosystem}", package, fixed, **fields)
        (folder / f"GHSA-{ecosystem}.json").write_text(json.dumps(entry))
    return directory


def scan(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["scan", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_a_scan_lists_known_vulnerabilities_and_exits_with_1(
    project: Path, advisories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, errors = scan(capsys, project, "--advisories", advisories)
    assert code == 1
    assert output.splitlines() == [
        "shelf  1.0  high  GHSA-PyPI  requirements.txt  fixed in 2.0",
        "1 known vulnerabilities in 2 packages",
    ]
    assert errors == ""


def test_a_scan_without_advisories_is_an_inventory_and_says_so(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, errors = scan(capsys, project)
    assert code == 0
    assert output == "shelf  1.0     requirements.txt\nsix    1.16.0  requirements.txt\n"
    assert "only the inventory" in errors


def test_an_ecosystem_without_advisories_is_a_warning(
    project: Path, advisories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (advisories / "PyPI" / "GHSA-PyPI.json").unlink()
    code, _, errors = scan(capsys, project, "--advisories", advisories)
    assert code == 0
    assert "has nothing for PyPI" in errors


@pytest.mark.parametrize(("path", "advice"), [("missing", "osv"), ("shop", "missing.zip")])
def test_an_unusable_path_is_an_error(
    tmp_path: Path, project: Path, capsys: pytest.CaptureFixture[str], path: str, advice: str
) -> None:
    code, output, errors = scan(capsys, tmp_path / path, "--advisories", tmp_path / advice)
    assert (code, output) == (2, "")
    assert "missing" in errors


def test_json_has_packages_and_whether_they_are_imported(
    project: Path, advisories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(scan(capsys, project, "--advisories", advisories, "--json")[1])
    imported = {each["name"]: each["imported"] for each in document["dependencies"]}
    assert imported == {"shelf": "yes", "six": "unknown"}
    (finding,) = document["vulnerabilities"]
    assert (finding["name"], finding["imported"]) == ("shelf", "yes")


def test_files_that_git_ignores_are_not_read(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "-q", project], check=True)
    (project / ".gitignore").write_text("build/\n")
    (project / "build").mkdir()
    (project / "build" / "requirements.txt").write_text("other==1\n")
    document = json.loads(scan(capsys, project, "--json")[1])
    assert {each["manifest"] for each in document["dependencies"]} == {"requirements.txt"}


def test_sarif_has_a_rule_and_a_location(
    project: Path, advisories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(scan(capsys, project, "--advisories", advisories, "--sarif")[1])
    (run,) = document["runs"]
    (result,) = run["results"]
    assert document["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [result["ruleId"]]
    assert run["tool"]["driver"]["rules"][0]["properties"] == {"security-severity": "7.5"}
    assert result["level"] == "error"
    location = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "requirements.txt"}


def test_the_sbom_has_packages_and_vulnerabilities(
    project: Path, advisories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(scan(capsys, project, "--advisories", advisories, "--cyclonedx")[1])
    assert document["bomFormat"] == "CycloneDX"
    assert {each["purl"] for each in document["components"]} == {
        "pkg:pypi/shelf@1.0",
        "pkg:pypi/six@1.16.0",
    }
    (vulnerability,) = document["vulnerabilities"]
    assert vulnerability["recommendation"] == "shelf 1.0: fixed in 2.0"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registries that only have modules of Go."""
    answers = {
        "/golang.org/x/text/@v/list": b"v0.3.7\nv0.3.8\nv0.4.0\n",
        "/golang.org/x/text/@v/v0.3.8.mod": b"module golang.org/x/text\n",
        "/golang.org/x/text/@v/v0.3.7.mod": b"module golang.org/x/text\n",
    }

    def download(url: str, *_: object) -> bytes:
        path = url.removeprefix("https://registry.test")
        if path not in answers:
            raise DownloadFailed("not found", 404)
        return answers[path]

    monkeypatch.setattr(fix_command, "download", download)
    for name in ("GO", "PYPI"):
        monkeypatch.setenv(f"AGENTJOBS_REGISTRY_{name}_URL", "https://registry.test")


def test_a_fix_edits_what_it_can_and_says_what_remains(
    project: Path, advisories: Path, registry: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "go.mod").write_text(GO_MOD)
    code = main(["fix", str(project), "--advisories", str(advisories)])
    output = capsys.readouterr().out
    assert "v0.3.8" in (project / "go.mod").read_text()
    assert (project / "requirements.txt").read_text().startswith("shelf==1.0")
    assert (
        "shelf 1.0 in requirements.txt is vulnerable (GHSA-PyPI)."
        " The PyPI registry lists no version of shelf." in output
    )
    assert output.splitlines()[-1] == "fixed: 1, known vulnerabilities left: 1"
    assert code == 1


def test_a_project_without_vulnerabilities_needs_no_registry(
    project: Path, advisories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "requirements.txt").write_text("six==1.16.0\n")
    assert main(["fix", str(project), "--advisories", str(advisories)]) == 0
    assert "left: 0" in capsys.readouterr().out


def test_the_command_is_installed() -> None:
    program = Path(sys.executable).with_name("agentjobs-dependencies")
    run = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    assert "{scan,fix}" in run.stdout
