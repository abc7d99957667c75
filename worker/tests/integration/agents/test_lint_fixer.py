"""The built-in agent `lint-fixer`, as the catalog declares it, in the real sandbox."""

import subprocess
from pathlib import Path

import pytest

from agentjobs_runtime.agents.prompt import JobDetails
from agentjobs_runtime.agents.report import Report, read_report
from agentjobs_runtime.settings import Settings
from agentjobs_worker.agents.catalog import build_catalog
from agentjobs_worker.agents.invocation import prepare_run
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.protocol import SandboxReport
from tests.support.sandbox import SandboxHarness, unused_uid_base


class Fixing:
    def __init__(self, base: Path) -> None:
        self.harness = SandboxHarness(BubblewrapSandbox(unused_uid_base()), base)
        self.tree = self.harness.workspace
        self.run_dir = self.harness.private / "fixing"

    def write(self, files: dict[str, str]) -> None:
        for name, content in files.items():
            path = self.tree / name
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(content)
        owner = self.harness.sandbox.owner_uid(0)
        if owner is not None:
            subprocess.run(["chown", "-hR", f"{owner}:{owner}", self.tree], check=True)

    async def run(self) -> tuple[SandboxReport, Report | None]:
        agent = build_catalog(Settings(data_dir=str(self.harness.private))).get("lint-fixer")
        assert agent is not None
        details = JobDetails(
            job_id="job_1",
            repo="acme/web",
            agent=agent.id,
            agent_name=agent.name,
            base_branch="main",
            base_commit="0" * 40,
        )
        task = prepare_run(
            agent,
            details,
            workspace=self.tree,
            run_dir=self.run_dir,
            owner_uid=self.harness.sandbox.owner_uid(0),
            timeout_seconds=60,
            slot=0,
        )
        outcome = await self.harness.sandbox.run(task, self.harness.receive)
        return outcome, read_report(self.run_dir)


@pytest.fixture
def fixing(tmp_path: Path) -> Fixing:
    return Fixing(tmp_path)


async def test_it_fixes_and_formats_and_reports_what_it_did(fixing: Fixing) -> None:
    fixing.write(
        {
            "pkg/a.py": "import os\nimport sys\nx  =  1\nprint( x )\n",
            "pkg/fine.py": "x = 1\n",
            "notes.txt": "import   os\n",
            "ruff.toml": '[lint]\nselect = ["F"]\n',
        }
    )
    outcome, report = await fixing.run()
    assert outcome.exit_code == 0, outcome.last_lines
    assert (fixing.tree / "pkg/a.py").read_text() == "x = 1\nprint(x)\n"
    assert (fixing.tree / "notes.txt").read_text() == "import   os\n"
    assert report is not None
    assert report.title == "Fix lint and format 1 file"
    assert "- `pkg/a.py`" in report.body
    assert "- `F401`: 2" in report.body
    assert "fine.py" not in report.body
    assert b"files changed: 1" in fixing.harness.output


async def test_it_leaves_only_its_changes_in_the_tree(fixing: Fixing) -> None:
    fixing.write({"a.py": "x  = 1\n", "b.py": "x = 1\n"})
    await fixing.run()
    assert {path.name for path in fixing.tree.rglob("*")} == {"a.py", "b.py"}


async def test_a_clean_tree_gets_no_change_and_no_report(fixing: Fixing) -> None:
    fixing.write({"a.py": "x = 1\n"})
    outcome, report = await fixing.run()
    assert (outcome.exit_code, report) == (0, None)
    assert (fixing.tree / "a.py").read_text() == "x = 1\n"


async def test_a_tree_without_python_gets_no_change(fixing: Fixing) -> None:
    fixing.write({"README.md": "hello\n"})
    outcome, report = await fixing.run()
    assert (outcome.exit_code, report) == (0, None)
    assert outcome.last_lines.endswith("no Python files: nothing to do")


async def test_files_that_do_not_parse_are_left_and_the_others_are_fixed(fixing: Fixing) -> None:
    fixing.write({"old.py": "print 'python 2'\n", "new.py": "x  =  1\n"})
    outcome, report = await fixing.run()
    assert outcome.exit_code == 0, outcome.last_lines
    assert (fixing.tree / "old.py").read_text() == "print 'python 2'\n"
    assert (fixing.tree / "new.py").read_text() == "x = 1\n"
    assert report is not None
    assert report.title == "Format 1 file"
    assert "`invalid-syntax`" in report.body


async def test_an_invalid_configuration_is_reported_as_a_failure(fixing: Fixing) -> None:
    fixing.write({"a.py": "x  =  1\n", "ruff.toml": "no-such-option = 1\n"})
    outcome, report = await fixing.run()
    assert outcome.exit_code == 1
    assert "no-such-option" in outcome.last_lines
    assert report is None


async def test_modules_of_the_tree_are_not_imported(fixing: Fixing) -> None:
    trap = "raise SystemExit('the tree was imported')\n"
    fixing.write({f"{name}.py": trap for name in ("json", "subprocess", "site", "usercustomize")})
    outcome, _ = await fixing.run()
    assert outcome.exit_code == 0, outcome.last_lines


async def test_file_names_cannot_inject_markdown_into_the_pull_request(fixing: Fixing) -> None:
    fixing.write({"we`ird **bold** \x1b[31m.py": "x  =  1\n"})
    _, report = await fixing.run()
    assert report is not None
    assert "- `we?ird **bold** ?[31m.py`" in report.body


async def test_the_service_itself_is_not_visible_to_it(fixing: Fixing) -> None:
    fixing.write({"a.py": "x  =  1\n"})
    secret = fixing.harness.private / "agentjobs.db"
    secret.write_text("secret")
    agent = build_catalog(Settings(data_dir=str(fixing.harness.private))).get("lint-fixer")
    assert agent is not None
    report = await fixing.harness.run(
        agent.command[0],
        "-c",
        f"open({str(secret)!r})",
        read_only=agent.read_only,
    )
    assert "FileNotFoundError" in report.last_lines
