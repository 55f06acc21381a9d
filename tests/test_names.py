import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubarray import names
from hubarray.errors import InvalidNameError

PART = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", fullmatch=True).filter(str.isascii)


@given(PART, PART, PART, st.none() | st.integers(1, 10**15))
def test_what_is_printed_reads_back_as_the_same_name(owner, name, version, commit):
    parsed = names.Name(owner, name, version, commit)
    assert names.parse(str(parsed), commit_allowed=True) == parsed


def test_without_an_owner_it_is_public_and_without_a_version_main():
    assert str(names.parse("digits")) == "public/digits:main"
    assert not names.parse("digits").version_given
    assert names.parse("digits:main").version_given


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "a/",
        "/a",
        "a/b/c",
        "../x",
        "a/../b",
        ".hidden",
        "-dash",
        "a:",
        "a:b:c",
        "a b",
        "naïve",
        "a/b:ü",
        "a\n",
        "a" * 129,
        "a" * 300,
        "a:" + "v" * 129,
        "a\\b",
        "a%2fb",
        "a\0",
        "\u0661",
        None,
        7,
    ],
)
def test_anything_else_is_an_invalid_name(text):
    with pytest.raises(InvalidNameError):
        names.parse(text)


@pytest.mark.parametrize(
    "text",
    ["a@0", "a@-1", "a@-banana", "a@b/c", "a@" + "b" * 129, "a@", "a@1@2", "a@01", "a@1.5", "a@٣", "a@" + "9" * 17],
)
def test_what_follows_the_at_sign_is_a_positive_number_or_a_tag(text):
    with pytest.raises(InvalidNameError, match=r"commit number|not allowed"):
        names.parse(text, commit_allowed=True)


def test_a_tag_is_a_word_that_begins_with_a_letter():
    parsed = names.parse("lab/x:v0@paper-2.1", commit_allowed=True)
    assert (parsed.tag, parsed.commit, str(parsed)) == ("paper-2.1", None, "lab/x:v0@paper-2.1")
    assert str(parsed.at(3)) == "lab/x:v0@3"
    for wrong in ("", "1a", "a b", "ä", "-a", "a@b", None, 3):
        with pytest.raises(InvalidNameError, match="tag"):
            names.checked_tag(wrong)


def test_a_commit_is_refused_where_something_is_written():
    with pytest.raises(InvalidNameError, match="only be read"):
        names.parse("a:v0@3")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lab/scans:v1", (None, "lab/scans:v1")),
        ("s3://bucket/lab/scans:v1", ("s3://bucket", "lab/scans:v1")),
        ("s3://bucket/deep/er/lab/scans@3", ("s3://bucket/deep/er", "lab/scans@3")),
        ("file:///data/hub/lab/scans", ("file:///data/hub", "lab/scans")),
    ],
)
def test_a_full_url_is_a_root_and_a_name(text, expected):
    assert names.split_root(text) == expected


@pytest.mark.parametrize("text", ["s3://bucket", "s3://bucket/x", "s3://"])
def test_a_url_without_owner_and_name_is_an_invalid_name(text):
    with pytest.raises(InvalidNameError):
        names.split_root(text)


@pytest.mark.parametrize("text", ["/x", "a/b/c", "ü", "../", 3])
def test_a_prefix_is_an_owner_or_a_names_beginning(text):
    with pytest.raises(InvalidNameError):
        names.parse_prefix(text)
