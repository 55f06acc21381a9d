"""The protocol of datasets holds in random interleavings, and each rule is needed."""

import pytest

from tests.protocol.dataset_model import explore_datasets
from tests.protocol.model import Violation
from tests.rounds import rounds

RULES = (
    "arrays that grow together grow in one commit",
    "append to the newest end",
    "numbers are given out behind those of the newest record",
    "a number that was given out is not given again",
    "an array is known by its id",
    "an upload is used again only on its base",
    "an adopted array's home is referred to first",
    "a commit is made within half the grace period",
    "what is young is kept",
)


def test_no_interleaving_of_writers_collectors_and_removers_breaks_a_promise():
    for seed in range(rounds(4_000, 100_000)):
        try:
            explore_datasets(seed)
        except Violation as violation:
            raise AssertionError(f"interleaving {seed}: {violation}") from violation


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_some_interleaving_breaks_a_promise(rule):
    for seed in range(40_000):
        try:
            explore_datasets(seed, frozenset({rule}))
        except Violation:
            return
    raise AssertionError(f"nothing went wrong without the rule: {rule}")
