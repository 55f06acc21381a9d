"""Find the seeds for the tables of rules in the tests, after a change of a model: python -m tests.protocol.seeds."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tests.protocol import test_dataset_model, test_model, test_table_model
from tests.protocol.dataset_model import explore_datasets
from tests.protocol.model import Violation, explore
from tests.protocol.table_model import explore_tables


def first_seed(explore: Callable[[int, frozenset[str]], object], rule: str) -> int:
    """Return the first seed whose interleaving breaks a promise without a rule."""
    for seed in itertools.count():
        try:
            explore(seed, frozenset({rule}))
        except Violation:
            return seed
    raise AssertionError


if __name__ == "__main__":
    for tests, run in (
        (test_model, explore),
        (test_dataset_model, explore_datasets),
        (test_table_model, explore_tables),
    ):
        for rule in tests.RULES:
            print(f"{rule}: {first_seed(run, rule)}")
