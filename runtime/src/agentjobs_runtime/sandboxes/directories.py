"""Directories and files that an agent sees in its sandbox."""

from pathlib import PurePosixPath

ROOT = PurePosixPath("/")
WORKSPACE = PurePosixPath("/workspace")
RUN_DIRECTORY = PurePosixPath("/run/agentjobs")
HOME = PurePosixPath("/home/agent")

# In the run directory.
JOB_FILE = "job.json"
REPORT_DIRECTORY = "report"
REPORT_FILE = "pull_request.md"
# Beside the report: the JSON result of an agent that has a schema for it.
RESULT_FILE = "result.json"
# Beside the report: why the pull request should be a draft.
DRAFT_FILE = "draft.md"
ARTIFACTS_DIRECTORY = "artifacts"
# Everything else in the run directory is read-only.
WRITABLE_DIRECTORIES = (REPORT_DIRECTORY, ARTIFACTS_DIRECTORY)
