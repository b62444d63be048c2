"""Documents of domains and policies as they travel, and the tag by which one version is told from another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from blowfishdb.model.document import read_document
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.written import write_domain, write_policy


def plain_document(domain: Mapping[str, Any], policy: Mapping[str, Any]) -> str:
    """One document from its two parts."""
    return json.dumps({"version": 1, "domain": domain, "policy": policy})


def read_policy_for(domain: Domain, policy: Mapping[str, Any]) -> Policy:
    """A policy as it travels, checked against a domain; DocumentError says what is wrong with it."""
    return read_document(plain_document(write_domain(domain), policy), "json").policy


def policy_tag(policy: Policy) -> str:
    """The entity tag of a policy: the same for the same policy."""
    written = json.dumps(write_policy(policy), sort_keys=True)
    return f'"{hashlib.sha256(written.encode()).hexdigest()[:20]}"'
