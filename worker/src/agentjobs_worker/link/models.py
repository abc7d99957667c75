"""The model gateway, its prices and its ledger.

This module is one of those through which the worker reaches the service: the protocol between both
replaces them.
"""

from agentjobs.gateway.gateway import TOKEN_PREFIX, Gateway
from agentjobs.gateway.ledger import Account, Ledger
from agentjobs.gateway.prices import Prices
from agentjobs.jobs.results.run_records import usage_writer
from agentjobs.jobs.steps.model_calls import model_step
from agentjobs.organizations.secrets import open_secret
