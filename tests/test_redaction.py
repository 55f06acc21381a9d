"""How text of others is shown: without secrets, and without what a terminal would obey."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hubarray as hub
from hubarray.cli.main import main
from hubarray.redaction import has_user, hidden_urls, shown_text, shown_url

PASSWORD = st.text(st.characters(codec="ascii", exclude_characters="@ "), min_size=6, max_size=12).map("pw".__add__)


@given(
    st.sampled_from(["https", "s3", "gs", "ftp"]), PASSWORD, st.sampled_from(["host", "host.org/x", "bucket/a/b.npy"])
)
def test_no_password_is_shown_whatever_stands_in_it(scheme, password, rest):
    url = f"{scheme}://me:{password}@{rest}"
    assert has_user(url)
    assert shown_url(url) == f"{scheme}://***@{rest}"


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=5), st.booleans())
def test_no_value_of_a_query_is_shown(value, named):
    query = f"part={value}&X={value}" if named else value
    shown = shown_url(f"https://host/x?{query}#{value}")
    assert value not in shown.removeprefix("https://host/x").replace("part", "").replace("X", "")
    assert (
        hidden_urls(f"cannot open https://host/x?{query}, sorry")
        == f"cannot open {shown_url(f'https://host/x?{query}')}, sorry"
    )


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/lab/x:v1@paper",
        "http://127.0.0.1:8080/lab/x:v1@3",
        "http://localhost:1/x@y",
        "plain text: a@b",
        "/a/b@c",
    ],
)
def test_what_holds_no_secret_stays_as_it_is(url):
    assert shown_url(url) == url
    assert not has_user(url)


@given(st.text())
def test_shown_text_is_one_line_that_no_terminal_obeys(text):
    shown = shown_text(text)
    assert not any(ord(item) < 32 or 127 <= ord(item) < 160 or item in "\u202e\u2028\u200b\ufeff" for item in shown)
    if text.isprintable() and "\xa0" not in text:
        assert shown == text


def test_authors_messages_and_attributes_are_shown_escaped(root, capsys):
    evil = "fine\x1b[2K\rforged\nline \u202e"
    hub.configure(author=evil)
    array = hub.array(3, "t/x:v0", attrs={evil: evil}, message=evil, root=root)
    hub.tag("t/x:v0", "a", message=evil, root=root)
    for command in (
        ["log", "t/x:v0"],
        ["info", "t/x:v0"],
        ["ls", "-l"],
        ["tag", "t/x:v0"],
        ["log", "t/x:v0", "--json"],
    ):
        assert main([*command, "--root", root.url]) == 0
        out, error = capsys.readouterr()
        assert not set("\x1b\r\u202e") & set(out + error), command
        assert len(out.splitlines()) < 30
    assert not set("\x1b\r\u202e") & set(repr(list(array.log())) + repr(array))
