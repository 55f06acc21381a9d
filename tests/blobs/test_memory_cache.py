from hypothesis import given
from hypothesis import strategies as st

from hubarray.blobs.memory_cache import MemoryCache


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20), st.integers(1, 60)), max_size=200))
def test_the_budget_holds_and_what_is_kept_is_what_was_put(steps):
    cache = MemoryCache(100)
    values = {}
    for is_put, key, size in steps:
        if is_put:
            values.setdefault(key, size)
            cache.put(key, values[key], values[key])
        else:
            assert cache.get(key) in (None, values.get(key))
        assert cache.used_bytes <= 100
        kept = {**cache._probation, **cache._protected}
        assert cache.used_bytes == sum(size for _, size in kept.values())


def test_a_scan_does_not_push_out_what_is_used_again():
    cache = MemoryCache(100)
    for key in range(5):
        cache.put(key, key, 10)
        assert cache.get(key) == key
    for key in range(1000, 2000):
        cache.put(key, key, 10)
    assert [cache.get(key) for key in range(5)] == [0, 1, 2, 3, 4]


def test_what_is_larger_than_the_budget_is_not_kept():
    cache = MemoryCache(10)
    cache.put("a", 1, 11)
    assert cache.get("a") is None
    none = MemoryCache(0)
    none.put("a", 1, 1)
    assert none.get("a") is None
