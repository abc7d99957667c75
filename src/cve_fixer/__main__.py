"""The agent `cve-fixer`: edits manifests and lock files so that packages leave versions with known
vulnerabilities. The service chose the versions; it alone judges the result.

Runs inside the sandbox and stands alone: it imports nothing of the service.
"""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    # Python is isolated here: this directory's parent is the one place modules may come from.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    sys.exit(importlib.import_module("cve_fixer.fix").main())
