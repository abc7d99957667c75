"""Unit tests reach no network: an attempt to open an internet socket fails the test."""

from pytest_socket import disable_socket, enable_socket


def pytest_runtest_setup() -> None:
    # The event loop's own wake-up pipe is a Unix socket pair.
    disable_socket(allow_unix_socket=True)


def pytest_runtest_teardown() -> None:
    enable_socket()
