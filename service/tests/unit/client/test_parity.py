"""The synchronous and the asynchronous client have the same calls with the same arguments."""

import inspect

import pytest

from agentjobs_client import AsyncClient, Client

VERBS = sorted(name for name in dir(Client) if not name.startswith("_"))


def test_both_clients_have_the_same_verbs():
    assert sorted(name for name in dir(AsyncClient) if not name.startswith("_")) == VERBS


@pytest.mark.parametrize("name", VERBS)
def test_both_clients_take_the_same_arguments_and_describe_them_alike(name):
    ours, theirs = (inspect.signature(getattr(kind, name)) for kind in (Client, AsyncClient))
    assert ours.parameters == theirs.parameters
    returned = str(theirs.return_annotation).replace("AsyncIterator", "Iterator")
    assert returned == str(ours.return_annotation)
    assert getattr(Client, name).__doc__ == getattr(AsyncClient, name).__doc__


def test_both_clients_are_created_alike():
    ours, theirs = (inspect.signature(kind).parameters for kind in (Client, AsyncClient))
    awaited = {"transport", "pause"}
    assert list(ours) == list(theirs)
    assert [ours[name] for name in ours if name not in awaited] == [
        theirs[name] for name in theirs if name not in awaited
    ]
