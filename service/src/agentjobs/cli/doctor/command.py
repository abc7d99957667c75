"""`agentjobs doctor`: checks whether this machine can run the service and its agents."""

import asyncio

import typer

from agentjobs.cli.admin import load_settings
from agentjobs.cli.machine import require_linux
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import print_json, print_note, print_result

HAS_PROBLEMS = 1
_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}


def doctor(data_dir: DataDir = None, json: Json = False) -> None:
    """Check this installation for problems; exit 1 if there are any."""
    require_linux()
    from agentjobs.cli.doctor.checks import check_all
    from agentjobs.cli.doctor.finding import count

    settings = load_settings(data_dir)
    findings = asyncio.run(check_all(settings))
    if json:
        print_json({"findings": [finding._asdict() for finding in findings]})
    else:
        width = max(len(subject) for subject, _, _ in findings)
        for subject, state, message in findings:
            print_result(f"{_MARKS[state]}  {subject:<{width}}  {message}")
    problems = sum(state == "problem" for _, state, _ in findings)
    print_note(f"{count(problems, 'problem')} found." if problems else "No problems found.")
    if problems:
        raise typer.Exit(HAS_PROBLEMS)
