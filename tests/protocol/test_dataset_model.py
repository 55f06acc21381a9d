"""The protocol of datasets holds in random interleavings, and each rule is needed."""

import pytest

from tests.protocol.dataset_model import explore_datasets
from tests.protocol.model import Violation
from tests.rounds import rounds

# Per rule: a seed whose interleaving breaks a promise without the rule.
RULES = {
    "arrays that grow together grow in one commit": 0,
    "append to the newest end": 3,
    "numbers are given out behind those of the newest record": 3,
    "a number that was given out is not given again": 19,
    "an array is known by its id": 608,
    "an upload is used again only on its base": 3,
    "an adopted array's home is referred to first": 43,
    "a commit is made within half the grace period": 90,
    "what is young is kept": 7,
}


def test_no_interleaving_of_writers_collectors_and_removers_breaks_a_promise():
    for seed in range(rounds(4_000, 100_000)):
        try:
            explore_datasets(seed)
        except Violation as violation:
            raise AssertionError(f"interleaving {seed}: {violation}") from violation


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_an_interleaving_breaks_a_promise(rule):
    explore_datasets(RULES[rule])
    with pytest.raises(Violation):
        explore_datasets(RULES[rule], frozenset({rule}))
