"""Signing in with an OpenID provider: hands on what the dashboard needs."""

from agentjobs.web.openid.sign_in import Finished, OpenId, Started

__all__ = ["Finished", "OpenId", "Started"]
