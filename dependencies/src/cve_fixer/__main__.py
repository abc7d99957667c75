"""The agent `cve-fixer`: edits manifests and lock files to move packages away from versions with
known vulnerabilities. The service chooses the versions and checks the result.

Runs inside the sandbox and imports nothing of the service.
"""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    # Python runs isolated: modules may only come from this directory's parent.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    sys.exit(importlib.import_module("cve_fixer.fix").main())
