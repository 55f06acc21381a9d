import json
import os

import pytest

import hubarray as hub
from hubarray import config
from hubarray.storage.url import normalize, resolve


def test_an_argument_beats_a_variable_beats_the_file_beats_the_default(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "_arguments", {})
    file = tmp_path / "settings.toml"
    file.write_text('root = "/from/file"\nmemory_cache_bytes = 11\nauthor = "file"\n')
    monkeypatch.setenv("HUBARRAY_CONFIG", str(file))
    monkeypatch.setenv("HUBARRAY_MEMORY_CACHE_BYTES", "22")
    monkeypatch.setenv("HUBARRAY_AUTHOR", "variable")
    hub.configure(author="argument")
    settings = config.current()
    assert (settings.root, settings.memory_cache_bytes, settings.author) == ("/from/file", 22, "argument")
    assert settings.disk_cache_bytes == config.Settings(root="", cache_dir="").disk_cache_bytes


def test_configure_changes_only_what_it_is_given():
    before = config.current()
    hub.configure(memory_cache_bytes=1234)
    after = config.current()
    assert after.memory_cache_bytes == 1234
    assert (after.root, after.cache_dir) == (before.root, before.cache_dir)


def test_storage_options_come_from_a_variable_as_json(monkeypatch):
    monkeypatch.setenv("HUBARRAY_STORAGE_OPTIONS", json.dumps({"anon": True}))
    assert config.current().storage_options == {"anon": True}


@pytest.mark.parametrize(
    "given",
    [
        {"root": 3},
        {"root": ""},
        {"memory_cache_bytes": -1},
        {"memory_cache_bytes": 1.5},
        {"disk_cache_bytes": "many"},
        {"storage_options": [1]},
        {"max_staleness_seconds": -1},
    ],
)
def test_a_setting_of_the_wrong_kind_is_refused_and_nothing_changes(given):
    before = config.current()
    with pytest.raises(hub.errors.ConfigError, match=next(iter(given))):
        hub.configure(**given, author="somebody")
    assert config.current() == before


def test_an_unknown_setting_in_the_file_is_named(tmp_path, monkeypatch):
    file = tmp_path / "settings.toml"
    file.write_text('rooot = "/x"\n')
    monkeypatch.setenv("HUBARRAY_CONFIG", str(file))
    with pytest.raises(hub.errors.ConfigError, match="rooot"):
        config.current()


def test_a_secret_is_not_in_the_complaint_about_it(monkeypatch):
    monkeypatch.setenv("HUBARRAY_STORAGE_OPTIONS", '{"key": "hunter2"')
    with pytest.raises(hub.errors.ConfigError) as caught:
        config.current()
    assert "hunter2" not in str(caught.value)


def test_configured_options_go_with_the_configured_root_and_its_scheme_only():
    hub.configure(root="s3://one/hub", storage_options={"key": "k", "secret": "s"})
    assert resolve(None)._options == {"key": "k", "secret": "s"}
    assert resolve("s3://two/hub")._options == {"key": "k", "secret": "s"}
    assert resolve("gs://three/hub")._options == {}
    own = hub.Root("s3://four", storage_options={"anon": True})
    assert resolve(own) is own


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/hub", "https://user:password@host/x"])
def test_credentials_in_a_url_are_refused_and_not_shown(url):
    with pytest.raises(hub.errors.ConfigError) as caught:
        normalize(url)
    assert "secret" not in str(caught.value)
    assert "password" not in str(caught.value)


def test_one_root_has_one_spelling(tmp_path):
    assert normalize(tmp_path) == normalize(str(tmp_path) + "/") == normalize(f"file://{tmp_path}")
    assert normalize("S3://bucket/hub/") == "s3://bucket/hub"


def test_places_that_only_options_tell_apart_are_not_taken_for_one_another():
    first, second = (hub.Root("az://container/hub", storage_options={"account_name": name}) for name in ("a", "b"))
    assert first.identity != second.identity
    assert first.identity == hub.Root("az://container/hub", storage_options={"account_name": "a"}).identity
    assert "account" not in first.identity


@pytest.mark.parametrize("url", ["s3:/bucket/hub", "s3//bucket/hub", "GS:/x", "lab/scans:v1", "C:x", "https:/host/x"])
def test_a_url_that_lacks_a_slash_and_the_name_of_a_version_are_no_folders(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hub.configure(root=url)
    for make in (hub.Root, resolve, lambda _: hub.exists("t/x:v0")):
        with pytest.raises(hub.errors.ConfigError, match=r"neither a URL.*nor a folder that exists.*write \./"):
            make(url)
    hub.configure(root=tmp_path)
    assert hub.Root(f"./{url}").path == os.path.normpath(tmp_path / url)
    (tmp_path / url).mkdir(parents=True)
    assert hub.Root(url).path == os.path.normpath(tmp_path / url)


def test_a_scheme_that_nobody_serves_is_refused_with_those_that_are():
    with pytest.raises(hub.errors.ConfigError, match="no store is known for memry://; use s3://"):
        hub.Root("memry://a")
    assert hub.Root("az://container/hub").scheme == "az"


def test_a_folder_has_no_host(tmp_path):
    assert hub.Root(f"file://localhost{tmp_path}").path == str(tmp_path)
    with pytest.raises(hub.errors.ConfigError, match="has no host"):
        hub.Root("file://elsewhere/folder")
