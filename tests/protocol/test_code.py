"""Rules that the model has no part for: each scenario holds as the code is, and fails when the code leaves the rule out."""

import contextlib
import importlib
import multiprocessing

import pytest

import hubarray as hub
from hubarray.arrays import handle as arrays
from hubarray.arrays.read import read_ahead
from hubarray.arrays.write import context_guard
from hubarray.arrays.write import transaction as transactions
from hubarray.arrays.write.worker import ArrayPart
from hubarray.history.commits import commit
from hubarray.history.log import log, probes, search, version
from hubarray.storage.local import LocalStore

retrying = importlib.import_module("hubarray.api.retry")


def workers_that_wrote_one_element_are_refused(root):
    array = hub.array(6, "t/x:v0", "i8", root=root)
    with array.transaction() as t:
        parts = []
        for value in (1, 2):
            with t.worker() as worker:
                worker[2] = value
            parts.append(worker.part)
        t.add(parts[0])
        with pytest.raises(hub.errors.ConflictError):
            t.add(parts[1])


def workers_of_one_chunk_are_merged_by_element(root):
    array = hub.array(6, "t/x:v0", "i8", root=root)
    with array.transaction() as t:
        for i in range(6):
            with t.worker() as worker:
                worker[i] = i + 1
            t.add(worker.part)
    assert array[...].tolist() == [1, 2, 3, 4, 5, 6]


def a_part_added_again_changes_nothing(root):
    array = hub.array(6, "t/x:v0", "i8", root=root)
    with array.transaction() as t:
        with t.worker() as worker:
            worker[2] = 5
        t.add(worker.part)
        t.add(worker.part)
    assert array[...].tolist() == [0, 0, 5, 0, 0, 0]


def a_transaction_is_of_no_use_in_a_forked_child(root):
    array = hub.array(6, "t/x:v0", "i8", root=root)
    context = multiprocessing.get_context("fork")
    refused = context.Value("i", 0)
    with array.transaction() as t:

        def use():
            try:
                t[0] = 1
            except hub.errors.ReadOnlyError:
                refused.value = 1

        child = context.Process(target=use)
        child.start()
        child.join(30)
    assert refused.value == 1


def retry_does_not_run_again_when_the_outcome_is_unknown(root):
    runs = []

    def work():
        runs.append(1)
        raise hub.errors.CommitOutcomeUnknown("?")

    with pytest.raises(hub.errors.CommitOutcomeUnknown):
        hub.retry(work, timeout_seconds=1)
    assert len(runs) == 1


def a_store_that_creates_a_key_twice_is_refused(root):
    def overwrite(self, key, data):
        self._put(key, [data], False, False)
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStore, "_put_if_absent", overwrite)
        patch.setattr(LocalStore, "proven_create", False)
        patch.setattr(probes._proofs, "_proven", set())
        with pytest.raises(hub.errors.UnsafeStoreError):
            hub.array(3, "t/x:v0", root=root)


def commits_beyond_a_stale_hint_are_found(root):
    array = hub.array(6, "t/x:v0", "i8", root=root)
    hub.flush()
    stale = bytes(root.store.get("t/x/log/v0/head.json"))
    for i in range(6):
        array[i] = i + 1
    hub.flush()
    root.store.put("t/x/log/v0/head.json", stale)
    assert log.Log(root.store, version.version_of(root, hub.names.parse("t/x:v0")).name).newest().head.number == 7


def an_iteration_reads_one_commit(root):
    hub.configure(max_staleness_seconds=0)
    array = hub.array((6, 2), "t/x:v0", "i8", chunks=(1, 2), root=root)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ahead, "MAX_READ_BYTES", 1)
        patch.setattr(read_ahead, "READS_AHEAD", 1)
        for i, row in enumerate(array):
            seen.append(row.tolist())
            array[5] = i + 1
    assert seen == [[0, 0]] * 6


def _without_elements(part, i, chunks):
    import numpy as np

    return np.ones(chunks, bool)


RULES = {
    "11: two workers may not write one element": (
        workers_that_wrote_one_element_are_refused,
        lambda patch: patch.setattr(transactions.Transaction, "_refuse_overlaps", lambda *args: None),
    ),
    "11: parts say which elements they cover": (
        workers_of_one_chunk_are_merged_by_element,
        lambda patch: patch.setattr(ArrayPart, "mask", _without_elements),
    ),
    "11: an identical retry is ignored": (
        a_part_added_again_changes_nothing,
        lambda patch: patch.setattr(transactions, "chunk_hashes", lambda refs: [object() for _ in refs]),
    ),
    "12: a transaction belongs to its process": (
        a_transaction_is_of_no_use_in_a_forked_child,
        lambda patch: patch.setattr(context_guard.os, "getpid", lambda: 7),
    ),
    "12: an unknown outcome is not run again": (
        retry_does_not_run_again_when_the_outcome_is_unknown,
        lambda patch: patch.setattr(retrying, "ConflictError", hub.HubError),
    ),
    "13: creation is proven first": (
        a_store_that_creates_a_key_twice_is_refused,
        lambda patch: patch.setattr(commit, "require_atomic_create", lambda store: None),
    ),
    "14: the log is probed beyond the hint": (
        commits_beyond_a_stale_hint_are_found,
        lambda patch: patch.setattr(search, "newest_from", lambda known, exists, most: known or 1),
    ),
    "15: what outlives a call pins one commit": (
        an_iteration_reads_one_commit,
        lambda patch: patch.setattr(arrays.ArrayHandle, "snapshot", lambda self: self),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_holds_and_its_absence_is_noticed(rule, make_root):
    scenario, leave_out = RULES[rule]
    scenario(make_root("local"))
    root = make_root("local")
    with contextlib.ExitStack() as undo:
        patch = undo.enter_context(pytest.MonkeyPatch.context())
        leave_out(patch)
        with pytest.raises(BaseException) as noticed:  # noqa: PT011
            scenario(root)
    assert isinstance(noticed.value, (AssertionError, hub.HubError, pytest.fail.Exception))
