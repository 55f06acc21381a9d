"""The protocol of tables holds in random interleavings, and each rule is needed."""

import pytest

from tests.protocol.model import Violation
from tests.protocol.table_model import explore_tables
from tests.rounds import rounds

RULES = (
    "a partition that is there is a conflict",
    "an old part is refused",
    "a part begins before its reference is read",
    "parts that wait are held by a staging version",
    "a table refers to the homes of its references first",
    "what is young is kept",
)


def test_no_interleaving_of_drivers_workers_and_collectors_breaks_a_promise():
    for seed in range(rounds(4_000, 100_000)):
        try:
            explore_tables(seed)
        except Violation as violation:
            raise AssertionError(f"interleaving {seed}: {violation}") from violation


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_some_interleaving_breaks_a_promise(rule):
    for seed in range(40_000):
        try:
            explore_tables(seed, frozenset({rule}))
        except Violation:
            return
    raise AssertionError(f"nothing went wrong without the rule: {rule}")
