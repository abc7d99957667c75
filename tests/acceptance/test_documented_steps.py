"""Runs every code block of README and quickstart, in order, as a reader would.

The program `claude` and the model's key are stand-ins; `make test-agents` runs the real agent. Of
`make demo` only the target is checked, because tests/integration/cli/test_demo.py runs the demo.
test_typescript_client.py compiles and runs TypeScript.
"""

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.documented_blocks import Block, blocks_of
from tests.support.paths import PROJECT
from tests.support.service import Api, Service, sample_repository

DOCUMENTED_ADDRESS = "127.0.0.1:8080"
FILES = {
    "shop/prices.py": (
        "import os\n\ndef total(prices):\n"
        "    return round(sum(round(price,2) for price in prices),2)\n"
    ),
    "README.md": "# Shop\n",
}
# What Claude Code prints, and files that depend on its prompt.
CLAUDE = r"""#!/bin/sh
if [ "$1" = --version ]; then echo "2.0.0 (Claude Code)"; exit; fi
for prompt; do :; done
case "$prompt" in
  *"Mention the change"*) echo "Prices are rounded once." >> README.md ;;
  *) printf 'def total(prices):\n    return round(sum(prices), 2)\n' > shop/prices.py
     printf 'from shop.prices import total\n' > test_prices.py ;;
esac
printf 'Round prices once\n\nAs asked.\n' > "$AGENTJOBS_REPORT"
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "done"}'
"""
# Prints a new API key as the password, whatever git asks for.
ASKPASS = """#!/bin/sh
exec agentjobs keys create --name git
"""
PRELUDE = """\
set -euo pipefail
start_service() {
  : > "$HOME/up.out"
  agentjobs up > "$HOME/up.out" 2>> "$HOME/up.log" &
  SERVICE=$!
  until grep -q http "$HOME/up.out"; do kill -0 $SERVICE; sleep 0.1; done
}
stop_service() { kill $SERVICE; wait $SERVICE; }
trap stop_service EXIT
"""


def script_of(block: Block) -> str:
    match block.language:
        case "sh":
            text = re.sub(r"^agentjobs up\b.*", "start_service", block.text, flags=re.MULTILINE)
            return text.replace("make demo", "make --dry-run demo")
        case "toml":
            config = "~/.local/share/agentjobs/agentjobs.toml"
            return f"cat >> {config} <<'END'\n{block.text}END\nstop_service\nstart_service"
        case "python":
            return f"python - <<'END'\n{block.text}END"
        case _:
            assert block.language == "ts", f"{block.page} has a block of another kind"
            return ""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def home(tmp_path: Path, sqlite_template: Path) -> Path:
    """The home directory of a reader who has a repository."""
    sample_repository(tmp_path / "src" / "shop", FILES)
    write_program(tmp_path / "bin" / "claude", CLAUDE)
    write_program(tmp_path / "bin" / "askpass", ASKPASS)
    store = tmp_path / ".local/share/agentjobs/agentjobs.db"
    store.parent.mkdir(parents=True)
    shutil.copy(sqlite_template, store)
    return tmp_path


def run_page(page: str, home: Path) -> str:
    port = free_port()
    blocks = [script_of(block) for block in blocks_of(PROJECT / page)]
    script = "\n\n".join([PRELUDE, *blocks]).replace(DOCUMENTED_ADDRESS, f"127.0.0.1:{port}")
    # What `secrets set` reads.
    (home / "key").write_text("sk-not-a-key\n")
    (home / "up.log").touch()
    with (home / "key").open() as stdin:
        done = subprocess.run(
            ["bash", "-x", "-c", script],
            cwd=PROJECT,
            env={
                "HOME": str(home),
                "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
                "LANG": "C.UTF-8",
                "AGENTJOBS_PORT": str(port),
                "GIT_ASKPASS": str(home / "bin" / "askpass"),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_COMMITTER_NAME": "Reader",
                "GIT_COMMITTER_EMAIL": "reader@example.com",
            },
            stdin=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr + (home / "up.log").read_text()
    return done.stdout


def test_every_block_of_the_readme_works_in_order(home: Path) -> None:
    output = run_page("README.md", home)
    assert "/default/acme/shop/pulls/1" in output
    assert "return round(sum(round(price, 2) for price in prices), 2)" in output
    assert '"status":"queued"' in output
    assert "completed http" in output


def test_the_pipeline_of_the_ci_guide_waits_for_its_job(service: Service, api: Api) -> None:
    (_, script, *_) = (
        block.text for block in blocks_of(PROJECT / "docs/guides/ci.md") if block.language == "sh"
    )
    assert "curl" in script
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script + '\necho "$JOB"'],
        env={**os.environ, "AGENTJOBS_URL": service.base_url, "AGENTJOBS_API_KEY": service.key()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert api.job(done.stdout.strip())["status"] == "completed"


def test_every_block_of_the_quickstart_works_in_order(home: Path) -> None:
    output = run_page("docs/quickstart.md", home)
    assert "/default/acme/shop/pulls/1" in output
    assert "+Prices are rounded once." in output
    merged = home / "src" / "shop"
    assert "round(sum(prices), 2)" in (merged / "shop/prices.py").read_text()
    assert "Prices are rounded once." in (merged / "README.md").read_text()
