"""The protocol holds in random interleavings, and each rule is needed: without it some interleaving breaks a promise."""

import pytest

from tests.protocol.model import Violation, explore
from tests.rounds import rounds

# Per rule: its number in FORMAT.md, and a seed whose interleaving breaks a promise without the rule.
RULES = {
    "packs before the record": (1, 0),
    "a number stays taken": (2, 3),
    "a tagged commit does not expire": (2, 42),
    "a tag that is taken away keeps for the grace period": (2, 2978),
    "what expired is not tagged": (2, 25),
    "another line is refused": (3, 8610),
    "a creation after a long deletion expires what was before": (3, 28),
    "one's own commit is recognised": (4, 23),
    "append to the newest end": (5, 62),
    "an upload is used again only on its base": (5, 113),
    "whole is decided again": (5, 521),
    "a folded root is kept only with what changed since": (5, 62),
    "a null ref hides the manifest": (5, 4),
    "another generation is a conflict": (6, 224),
    "rows that no longer fit are a conflict": (6, 205),
    "one axis resized by both": (6, 152),
    "frozen is final": (6, 57),
    "so already holds only against the newest": (7, 4276),
    "a shrink rewrites what it cuts": (8, 16),
    "a shrink prunes the manifest": (8, 112),
    "a copy writes a referrer first": (9, 15),
    "a copy of a copy refers to every home": (9, 1494),
    "a commit is made within half the grace period": (10, 1315),
    "what is young is kept": (10, 162),
    "what expired is kept for the grace period": (10, 162),
    "what expired is not copied": (10, 801),
    "the hint follows the record": (14, 12),
    "probe beyond the hint": (14, 115),
    "a handle never goes back": (15, 36),
}


def test_no_interleaving_breaks_a_promise():
    for seed in range(rounds(10_000, 100_000)):
        try:
            explore(seed)
        except Violation as violation:
            raise AssertionError(f"interleaving {seed}: {violation}") from violation


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_an_interleaving_breaks_a_promise(rule):
    explore(RULES[rule][1])
    with pytest.raises(Violation):
        explore(RULES[rule][1], frozenset({rule}))
