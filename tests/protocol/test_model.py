"""The protocol holds in random interleavings, and each rule is needed: without it some interleaving breaks a promise."""

import pytest

from tests.protocol.model import Violation, explore
from tests.rounds import rounds

RULES = {
    "packs before the record": 1,
    "a number stays taken": 2,
    "a tagged commit does not expire": 2,
    "a tag that is taken away keeps for the grace period": 2,
    "what expired is not tagged": 2,
    "another line is refused": 3,
    "a creation after a long deletion expires what was before": 3,
    "one's own commit is recognised": 4,
    "append to the newest end": 5,
    "an upload is used again only on its base": 5,
    "whole is decided again": 5,
    "a folded root is kept only with what changed since": 5,
    "a null ref hides the manifest": 5,
    "another generation is a conflict": 6,
    "rows that no longer fit are a conflict": 6,
    "one axis resized by both": 6,
    "frozen is final": 6,
    "so already holds only against the newest": 7,
    "a shrink rewrites what it cuts": 8,
    "a shrink prunes the manifest": 8,
    "a copy writes a referrer first": 9,
    "a copy of a copy refers to every home": 9,
    "a commit is made within half the grace period": 10,
    "what is young is kept": 10,
    "what expired is kept for the grace period": 10,
    "what expired is not copied": 10,
    "the hint follows the record": 14,
    "probe beyond the hint": 14,
    "a handle never goes back": 15,
}


def test_no_interleaving_breaks_a_promise():
    for seed in range(rounds(10_000, 100_000)):
        try:
            explore(seed)
        except Violation as violation:
            raise AssertionError(f"interleaving {seed}: {violation}") from violation


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_some_interleaving_breaks_a_promise(rule):
    for seed in range(60_000):
        try:
            explore(seed, frozenset({rule}))
        except Violation:
            return
    raise AssertionError(f"nothing went wrong without rule {RULES[rule]}: {rule}")
