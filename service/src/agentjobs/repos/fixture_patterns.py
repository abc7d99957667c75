"""Where the manifests of tests and examples are, unless `.agentjobs.toml` says otherwise.

The index process imports this module, so it must not import anything heavy.
"""

DEFAULT_FIXTURES = ("**/tests/fixtures", "testdata", "examples")
