"""The agent `cve-fixer`: edits manifests and lock files to move packages away from versions with
known vulnerabilities. The service chooses the versions and checks the result.

Runs inside the sandbox and imports nothing of the service.
"""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    # Python runs isolated: modules may only come from the directory of this distribution.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    sys.exit(importlib.import_module("agentjobs_dependencies.fixes.fix").main())
