"""The protocol of tables holds in random interleavings, and each rule is needed."""

import pytest

from tests.protocol.model import Violation
from tests.protocol.table_model import explore_tables
from tests.rounds import rounds

# Per rule: a seed whose interleaving breaks a promise without the rule.
RULES = {
    "a partition that is there is a conflict": 2,
    "an old part is refused": 14,
    "a part begins before its reference is read": 13849,
    "parts that wait are held by a staging version": 1,
    "a table refers to the homes of its references first": 5,
    "what is young is kept": 0,
}


def test_no_interleaving_of_drivers_workers_and_collectors_breaks_a_promise():
    for seed in range(rounds(4_000, 100_000)):
        try:
            explore_tables(seed)
        except Violation as violation:
            raise AssertionError(f"interleaving {seed}: {violation}") from violation


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_an_interleaving_breaks_a_promise(rule):
    explore_tables(RULES[rule])
    with pytest.raises(Violation):
        explore_tables(RULES[rule], frozenset({rule}))
