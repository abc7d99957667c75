"""Pipfile.lock: which entries change, and the hash of the Pipfile."""

import json

import pytest

from agentjobs_dependencies.fixes.model import Candidate, Fix
from agentjobs_dependencies.fixes.python import pipfile_lock

PIPFILE = """\
[[source]]
url = "https://pypi.org/simple"
verify_ssl = true
name = "pypi"

[packages]
requests = "<2.26"
urllib3 = "==1.26.5"

[dev-packages]
pytest = "<7"

[requires]
python_version = "3.11"
"""
LOCK = {
    "_meta": {"hash": {"sha256": "0"}, "pipfile-spec": 6},
    "default": {
        "requests": {
            "extras": ["socks"],
            "hashes": ["sha256:1", "sha256:2"],
            "index": "pypi",
            "markers": "python_version >= '3.6'",
            "version": "==2.25.0",
        },
        "local": {"editable": True, "path": "."},
    },
    "develop": {"idna": {"hashes": ["sha256:3"], "version": "==2.10"}},
}


def test_the_hash_of_a_pipfile_is_the_one_that_pipenv_writes() -> None:
    # As pipenv 2022.1.8 and 2024.4.1 wrote it.
    expected = "32411b04f0037758738e68decfcd56b2858ea4896143c1787cb79d17eb35bf14"
    assert pipfile_lock.pipfile_hash(PIPFILE) == expected


def test_the_pins_of_a_lock_file_are_those_of_a_requirements_file_with_hashes() -> None:
    assert pipfile_lock.as_requirements(LOCK) == (
        "requests[socks]==2.25.0 ; python_version >= '3.6' \\\n"
        "    --hash=sha256:1 \\\n    --hash=sha256:2\n"
        "idna==2.10 \\\n    --hash=sha256:3\n"
    )


@pytest.mark.parametrize(
    ("before", "requires", "after"),
    [
        ("python_version >= '3.6'", ">=3.7", "python_version >= '3.7'"),
        ("python_version >= '3.6'", ">=3.7.2", "python_version >= '3.7'"),
        ("python_version >= '3.6'", ">=3.7,<4", "python_version >= '3.6'"),
        ("os_name == 'nt'", ">=3.7", "os_name == 'nt'"),
    ],
)
def test_only_the_package_and_what_it_requires_change(
    before: str, requires: str, after: str
) -> None:
    lock = json.loads(json.dumps(LOCK).replace("python_version >= '3.6'", before))
    fix = Fix(
        *("PyPI", "Pipfile.lock", "requests", "2.25.0", "2.31.0"),
        hashes=("sha256:b", "sha256:a"),
        candidates=(Candidate("2.31.0", requires),),
    )
    text = "charset-normalizer==3.0 \\\n    --hash=sha256:9\n"
    expected = json.loads(json.dumps(lock))
    expected["default"]["charset-normalizer"] = {"hashes": ["sha256:9"], "version": "==3.0"}
    expected["default"]["requests"] |= {
        "hashes": ["sha256:a", "sha256:b"],
        "markers": after,
        "version": "==2.31.0",
    }
    assert pipfile_lock.with_pins(lock, text, fix) == expected
