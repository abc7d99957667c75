"""Gemfile.lock."""

import pytest

from agentjobs_dependencies.formats.ruby import read_gemfile_lock

GEMFILE_LOCK = b"""\
GIT
  remote: https://example.com/patched.git
  revision: 0123456789
  branch: main
  specs:
    patched (0.3.0)
      rack (>= 1)

PATH
  remote: engines/billing
  specs:
    billing (0.1.0)
      money (~> 6.0)

GEM
  remote: https://gems.example/
  specs:
    activerecord (6.1.6)
      activemodel (= 6.1.6)
    activemodel (6.1.6)
    money (6.16.0)
    nokogiri (1.13.3)
      mini_portile2 (~> 2.8.0)
    nokogiri (1.13.3-x86_64-linux)
      racc (~> 1.4)
    mini_portile2 (2.8.0)
    racc (1.6.0)
    rack (2.2.3.1)
      rack (>= 0)

PLATFORMS
  ruby
  x86_64-linux

DEPENDENCIES
  activerecord (= 6.1.6)
  billing!
  nokogiri (~> 1.13, >= 1.13.3)
  patched!

CHECKSUMS
  rack (2.2.3.1) sha256=00

RUBY VERSION
   ruby 3.1.2p20

BUNDLED WITH
   2.3.7
"""


def test_gems_of_every_source_except_the_repository_are_locked():
    facts = read_gemfile_lock(GEMFILE_LOCK)
    names = [package.name for package in facts.packages]
    assert facts.warnings == ()
    assert {p.name: (p.version, [names[i] for i in p.requires]) for p in facts.packages} == {
        "patched": ("0.3.0", ["rack"]),
        "activerecord": ("6.1.6", ["activemodel"]),
        "activemodel": ("6.1.6", []),
        "money": ("6.16.0", []),
        # Built for a platform it is still the same version, which may require something else.
        "nokogiri": ("1.13.3", ["mini_portile2", "racc"]),
        "mini_portile2": ("2.8.0", []),
        "racc": ("1.6.0", []),
        "rack": ("2.2.3.1", ["rack"]),
    }
    assert {names[i] for root in facts.roots for i in root.packages} == {
        "activerecord", "nokogiri", "patched", "money",
    }  # fmt: skip
    assert {r.name: (r.specifier, r.version) for r in facts.requirements} == {
        "money": ("~> 6.0", None),
        "activerecord": ("= 6.1.6", "6.1.6"),
        "nokogiri": ("~> 1.13, >= 1.13.3", None),
        "patched": ("", None),
    }


GEM = b"GEM\n  specs:\n    a (1.0)\n"


@pytest.mark.parametrize(
    ("content", "kept", "warned"),
    [
        (b"", [], ""),
        (b"\x7fELF\x00", [], "binary"),
        (GEM + b"    caf\xe9 (1)\n", ["a", "caf\ufffd"], "not valid UTF-8"),
        (GEM + b"    b (1.", ["a"], "1 invalid lines"),
        (GEM + b"    b\n      c (1)\n", ["a"], ""),
        (GEM.replace(b"\n", b"\r\n"), ["a"], ""),
        (b"<<<<<<< HEAD\n" + GEM + b">>>>>>> x\n", ["a"], "the first: <<<<<<<"),
        (GEM * 3, ["a"], ""),
    ],
    ids=["empty", "binary", "bytes", "cut off", "no version", "CRLF", "conflict", "twice"],
)
def test_a_broken_file_warns_and_keeps_the_rest(content, kept, warned):
    facts = read_gemfile_lock(content)
    assert [package.name for package in facts.packages] == kept
    assert (warned in " ".join(facts.warnings)) if warned else facts.warnings == ()


def test_a_gem_with_many_versions_does_not_multiply_requirements():
    versions = b"".join(b"    a (%d)\n      a\n" % number for number in range(2_000))
    facts = read_gemfile_lock(b"GEM\n  specs:\n" + versions)
    assert sum(len(package.requires) for package in facts.packages) <= 50 * 2_000
