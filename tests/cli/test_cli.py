"""The command line: every command, its text and JSON, its exit code; and what it says when things go wrong."""

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.cli import completion
from hubarray.cli.command import COMMANDS
from hubarray.cli.main import main, parser


@pytest.fixture
def shell(root, capsys):
    """Runs a command on a root of its own; gives exit code, output, and errors."""

    def run(*arguments, code=0):
        command, *rest = arguments
        result = main([command, "--root", root.url, *rest])
        captured = capsys.readouterr()
        assert result == code, captured
        return captured.out if code in (0, 3) else captured.err

    run.root = root
    return run


@pytest.fixture
def filled(shell):
    array = hub.array((40, 6), "lab/x:v0", "i4", chunks=(10, 6), root=shell.root, attrs={"unit": "mm"})
    array[...] = np.arange(240).reshape(40, 6)
    return shell


def said(shell, *arguments, code=0):
    return json.loads(shell(arguments[0], "--json", *arguments[1:], code=code))


def test_listing_and_describing(filled):
    hub.copy("lab/x:v0", "lab/y:v1", root=filled.root)
    assert filled("ls").split() == ["lab/x:v0", "lab/y:v1"]
    assert said(filled, "ls", "lab/y") == [{"name": "lab/y:v1", "state": "", "problem": None}]
    assert "(40, 6)" in filled("ls", "-l")
    facts = said(filled, "info", "lab/x:v0")
    assert (facts["shape"], facts["dtype"], facts["commit"], facts["attrs"]) == ([40, 6], "int32", 2, {"unit": "mm"})
    assert 0 < facts["stored_bytes"] < facts["memory_bytes"] == 960
    assert "960 B" in filled("info", "lab/x:v0")


def test_history(filled):
    filled("put", "lab/x:v0", "0:3, 2", "7", "-m", "sevens")
    assert "sevens" in filled("log", "lab/x:v0", "-n", "1")
    assert [item["number"] for item in said(filled, "log", "lab/x:v0")] == [3, 2, 1]
    assert filled("diff", "lab/x:v0@2", "lab/x:v0", code=3).strip() == "[0:10, 0:6]"
    assert said(filled, "diff", "lab/x:v0", "lab/x:v0")["regions"] == []
    filled("tag", "lab/x:v0@2", "paper")
    assert said(filled, "tag", "lab/x:v0") == {"paper": 2}
    filled("copy", "lab/x:v0@paper", "lab/z:v0")
    assert hub.load("lab/z:v0", root=filled.root)[0, 2] == 2


def test_reading_and_writing_parts(filled, tmp_path):
    assert said(filled, "get", "lab/x:v0", "1, ::3") == [6, 9]
    assert "[6 9]" in filled("get", "lab/x:v0", "1, ::3")
    filled("get", "lab/x:v0", "0:2", "-o", str(tmp_path / "part.npy"))
    part = np.load(tmp_path / "part.npy")
    assert part.tolist() == np.arange(12).reshape(2, 6).tolist()
    np.save(tmp_path / "new.npy", part + 100)
    filled("put", "lab/x:v0", "38:40", str(tmp_path / "new.npy"))
    assert hub.load("lab/x:v0", root=filled.root)[39, 5] == 111
    assert len(said(filled, "get", "lab/x:v0", "38:")) == 2
    for wrong in ("__import__('os')", "1; 2", "x"):
        assert "not an index" in filled("get", "lab/x:v0", wrong, code=1)
    assert "out of bounds" in filled("get", "lab/x:v0", "99", code=1)
    assert "neither" in filled("put", "lab/x:v0", "0", "seven", code=1)
    for broken in (b"0,0", b"\x93NUMPY\x01\x00\x10\x00{'descr': ('<i4',"):
        (tmp_path / "broken.npy").write_bytes(broken)
        assert "broken.npy: is not a .npy file" in filled("put", "lab/x:v0", "0", str(tmp_path / "broken.npy"), code=1)


def test_import_export_and_transfer(shell, tmp_path, make_root):
    np.save(tmp_path / "x.npy", np.arange(60).reshape(20, 3))
    assert "shape (20, 3)" in shell("import", str(tmp_path / "x.npy"), "lab/x:v0", "--chunks", "5,3")
    shell("export", "lab/x:v0", str(tmp_path / "y.npy"))
    assert np.array_equal(np.load(tmp_path / "x.npy"), np.load(tmp_path / "y.npy"))
    other = make_root("local")
    assert said(shell, "transfer", "lab/x:v0", other.url)["commits"] >= 1
    assert hub.load("lab/x:v0", root=other).chunks == (5, 3)
    assert "exists already" in shell("import", str(tmp_path / "x.npy"), "lab/x:v0", code=1)
    assert "--chunks a" in shell("import", str(tmp_path / "x.npy"), "lab/z:v0", "--chunks", "a", code=1)


def test_upkeep(filled):
    assert filled("verify", "lab/x").strip() == "lab/x: all is well"
    assert said(filled, "gc", "lab/x", "--dry-run")["packs"] == 0
    (row,) = said(filled, "du")
    assert row["name"] == "lab/x"
    assert row["bytes"] > 300
    pack = next(iter(filled.root.store.list("lab/x/packs/")))
    filled.root.store.delete([pack.key])
    assert said(filled, "verify", "lab/x", code=3)["problems"]


def test_what_cannot_be_taken_back_asks_first(filled):
    assert "--yes" in filled("delete", "lab/x:v0", code=1)
    assert "--yes" in filled("freeze", "lab/x:v0", code=1)
    assert hub.exists("lab/x:v0", root=filled.root)
    filled("freeze", "lab/x:v0", "--yes")
    assert hub.load("lab/x:v0", root=filled.root).frozen
    filled("delete", "lab/x", "--yes")
    assert said(filled, "ls") == []


@pytest.mark.parametrize(("answer", "exists"), [(b"n\n", True), (b"\n", True), (b"y\n", False)])
def test_on_a_terminal_it_asks(filled, answer, exists):
    driver, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hubarray", "delete", "lab/x:v0", "--root", filled.root.url],
        stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.write(driver, answer)
    process.communicate(timeout=60)
    assert hub.exists("lab/x:v0", root=filled.root) == exists


def test_the_cache_is_shown_and_emptied(filled):
    facts = said(filled, "cache")
    assert facts["files"] >= 0
    folder = facts["folder"]
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/some", "wb") as file:
        file.write(b"123")
    assert said(filled, "cache", "--clear")["cleared"]
    assert not os.path.exists(folder)


def test_bench_says_how_fast_and_leaves_nothing(shell):
    facts = said(shell, "bench", "--megabytes", "5")
    assert facts["write_megabytes_per_second"] > 0
    assert min(facts["cold_random_sample_milliseconds"], facts["warm_random_sample_milliseconds"]) > 0
    assert said(shell, "ls") == []


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_doctor_finds_all_well(kind, make_root, monkeypatch, capsys):
    root = make_root(kind)
    for name, option in (
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_ENDPOINT_URL", "endpoint_url"),
    ):
        if option in root._options:
            monkeypatch.setenv(name, root._options[option])
    assert main(["doctor", "--root", root.url, "--json"]) == 0
    checks = {row["check"]: row["ok"] for row in json.loads(capsys.readouterr().out)}
    assert set(checks.values()) == {True}
    assert len(checks) == 6
    assert not [info for info in root.store.list("") if "doctor" in info.key]


def test_doctor_says_what_to_mend(shell, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    hub.configure(cache_dir=blocked / "cache")
    rows = said(shell, "doctor", code=3)
    (bad,) = [row for row in rows if not row["ok"]]
    assert bad["check"] == "cache folder"
    assert "HUBARRAY_CACHE_DIR" in bad["says"]


def test_doctor_on_a_root_that_is_not_there(capsys):
    assert main(["doctor", "--root", "s3://bucket-nowhere/x", "--json"]) == 3
    assert "wrong" not in capsys.readouterr().err


def test_errors_go_to_the_error_stream_with_a_code_and_as_json(filled, capsys):
    assert "near" in filled("info", "lab/nope:v0", code=1) or "Names there" in filled("info", "lab/nope:v0", code=1)
    assert main(["info", "--json", "--root", filled.root.url, "lab/nope:v0"]) == 1
    assert json.loads(capsys.readouterr().out)["error"] == "NotFoundError"
    with pytest.raises(SystemExit) as used_wrongly:
        main(["info"])
    assert used_wrongly.value.code == 2


def test_the_module_and_the_program_are_the_same_and_end_quietly_in_a_pipe(filled):
    program = shutil.which("hubarray", path=os.path.dirname(sys.executable))
    for command in ([sys.executable, "-m", "hubarray"], [program]):
        result = subprocess.run([*command, "ls", "--root", filled.root.url], capture_output=True, text=True, check=True)
        assert result.stdout.strip() == "lab/x:v0"
    piped = f"'{sys.executable}' -m hubarray get lab/x:v0 --root '{filled.root.url}' --json | head -1"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", piped], capture_output=True, text=True)
    assert result.stderr == ""


def test_every_command_helps_with_examples():
    (subparsers,) = [item for item in parser()._actions if hasattr(item, "choices") and item.choices]
    assert set(subparsers.choices) == set(COMMANDS)
    assert len(COMMANDS) > 25
    for name, item in subparsers.choices.items():
        assert f"hubarray {name}" in item.epilog


@pytest.mark.parametrize("which", completion.SHELLS)
def test_completion_scripts_name_every_command(which, capsys):
    assert main(["completion", which]) == 0
    script = capsys.readouterr().out
    assert "transfer" in script
    assert "dry-run" in script


def test_zsh_gets_each_summary_as_one_word(capsys):
    main(["completion", "zsh"])
    lines = capsys.readouterr().out.partition("local -a commands=(\n")[2].partition("\n  )")[0].splitlines()
    assert [shlex.split(line) for line in lines] == [[f"{name}:{item.summary}"] for name, item in COMMANDS.items()]


def test_fish_gets_each_summary_and_each_command_in_quotes_as_one_word(capsys):
    main(["completion", "fish"])
    for line in capsys.readouterr().out.splitlines():
        words = re.findall(r"'(?:[^'\\]|\\['\\])*'(?= |$)|[^ ']+(?= |$)", line)
        assert " ".join(words) == line


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("hubarray tr", "transfer"),
        ("hubarray log lab/", "lab/x:v0"),
        ("hubarray log lab/x:v", "v0"),
        ("hubarray log lab/x:v0 --nu", "--number"),
        ("hubarray import a.npy b --fo", "--follow-links"),
        ("hubarray completion f", "fish"),
        ("hubarray explain Conf", "ConfigError ConflictError"),
        ("hubarray export lab/x:v0 --format h", "hdf5"),
    ],
)
def test_bash_completes_commands_names_and_options_anywhere(filled, capsys, line, found):
    main(["completion", "bash"])
    script = capsys.readouterr().out
    words = line.split()
    asked = (
        f'COMP_LINE="{line}"; COMP_POINT={len(line)}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _hubarray; '
        'echo "${COMPREPLY[@]}"'
    )
    environment = os.environ | {
        "HUBARRAY_ROOT": filled.root.url,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True, env=environment
    )
    assert sorted(done.stdout.split()) == found.split()


def test_json_is_json_whatever_the_values(shell, capsys):
    array = hub.array(4, "lab/odd:v0", "f8", fill_value=float("nan"), root=shell.root)
    array[1:3] = [np.inf, -np.inf]

    def strict(text):
        return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    assert strict(shell("get", "--json", "lab/odd:v0")) == ["NaN", "Infinity", "-Infinity", "NaN"]
    assert strict(shell("info", "--json", "lab/odd:v0"))["fill_value"] == "NaN"
    assert main(["freeze", "--json", "--root", shell.root.url, "lab/odd:v0"]) == 1
    assert strict(capsys.readouterr().out)["error"] == "NotConfirmed"


def test_values_go_through_pipes_and_what_does_not_fit_is_refused(filled, tmp_path):
    hub.copy("lab/x:v0", "lab/y:v0", root=filled.root)
    program = f"'{sys.executable}' -m hubarray"
    piped = f"{program} get lab/x:v0 0 -o - --root '{filled.root.url}' | {program} put lab/y:v0 5 - --root '{filled.root.url}'"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", piped], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert hub.load("lab/y:v0", root=filled.root)[5].tolist() == [0, 1, 2, 3, 4, 5]
    assert "int" in filled("put", "lab/y:v0", "0", "9" * 30, code=1)
    filled("put", "lab/y:v0", "0", "1e400", code=1)
    assert hub.load("lab/y:v0", root=filled.root).commit == 2
    (tmp_path / "mine.npy").write_bytes(b"precious")
    assert "--overwrite" in filled("get", "lab/y:v0", "-o", str(tmp_path / "mine.npy"), code=1)
    assert (tmp_path / "mine.npy").read_bytes() == b"precious"


@pytest.mark.parametrize("arguments", [["log", "x", "-n", "-1"], ["bench", "--megabytes", "0"]])
def test_numbers_have_to_be_above_0(arguments, capsys):
    with pytest.raises(SystemExit) as used_wrongly:
        main(arguments)
    assert used_wrongly.value.code == 2
    assert "not a positive number" in capsys.readouterr().err


@pytest.mark.parametrize("closed", [">&-", "<&-"])
def test_closed_streams_do_not_matter(filled, closed):
    command = f"'{sys.executable}' -m hubarray delete lab/x:v0 --root '{filled.root.url}' {closed}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr


def test_looking_after_versions_on_the_command_line(filled, tmp_path):
    root = filled.root
    filled("tag", "lab/x:v0@1", "begin")
    assert said(filled, "untag", "lab/x:v0", "begin") == {"untagged": "begin", "commit": 1}
    filled("put", "lab/x:v0", "0", "7")
    before = hub.load("lab/x:v0", root=root).commit
    assert said(filled, "undo", "lab/x:v0")["commit"] == before + 1
    assert said(filled, "restore", "lab/x:v0", "1")["commit"] == before + 2
    filled("copy", "lab/x:v0", "lab/x:mine")
    filled("put", "lab/x:mine", "1", "5")
    assert said(filled, "diff", "lab/x:v0", "lab/x:mine", "--elements", code=3)["elements"] == 6
    assert said(filled, "merge", "lab/x:mine", "lab/x:v0")["commit"] == before + 3
    assert "pass --yes" in filled("expire", "lab/x:v0", "--keep-last", "1", code=1)
    assert said(filled, "expire", "lab/x:v0", "--keep-last", "1", "--yes") == {"expired_to": before + 2}
    assert said(filled, "compact", "lab/x:v0", "--dry-run")["chunks"] >= 0
    assert said(filled, "repair", "lab/x") == {"repaired": [], "problems": []}
    assert said(filled, "rename", "lab/x:mine", "lab/renamed:v1")["name"] == "lab/renamed:v1"
    assert "lab/renamed:v1" in filled("ls")


def test_reading_all_of_a_large_array_has_to_be_meant(filled, monkeypatch):
    from hubarray.cli import data

    monkeypatch.setattr(data, "_ASKED_BYTES", 100)
    assert "pass --yes" in filled("get", "lab/x:v0", code=1)
    assert len(said(filled, "get", "lab/x:v0", "--yes")) == 40
    assert len(said(filled, "get", "lab/x:v0", "0:30")) == 30


def test_a_folder_that_is_not_there_is_no_root(filled, tmp_path):
    for command in ("ls", "du"):
        assert "no such folder" in filled(command, "--root", str(tmp_path / "missing"), code=1)


def test_a_traceback_ends_with_the_command_that_explains_its_error(shell):
    with pytest.raises(hub.errors.NotFoundError) as raised:
        hub.load("lab/nowhere:v1")
    (note,) = raised.value.__notes__
    explained = shell(*note.partition("hubarray ")[2].split())
    assert "does not exist under this root" in explained
    assert "What to do: look at hub.list()" in explained


def test_files_of_several_arrays_become_datasets_and_are_written_again(shell, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["image"], file["label"] = np.zeros((5, 4, 4), "u1"), np.arange(5)
    assert "2 arrays" in shell("import", str(tmp_path / "x.h5"), "lab/x:v1")
    assert "label       int64 (5,)" in shell("info", "lab/x:v1")
    for name in ("out.zarr", "out.h5", "out.nc"):
        shell("export", "lab/x:v1", str(tmp_path / name))
        shell("import", str(tmp_path / name), f"lab/{name}:v1")
        assert hub.load(f"lab/{name}:v1", root=shell.root)["label"][...].tolist() == [0, 1, 2, 3, 4]
    assert "Zarr, HDF5 or NetCDF" in shell("export", "lab/x:v1", str(tmp_path / "out.npy"), code=1)


def test_tables_are_imported_and_exported(shell, tmp_path):
    (tmp_path / "x.csv").write_text("day,value\nmon,1\nmon,2\ntue,3\n")
    assert "3 rows" in shell("import-table", str(tmp_path / "x.csv"), "lab/csv:v1", "--key", "day")
    shell("export", "lab/csv:v1", str(tmp_path / "x.parquet"), "--columns", "value")
    assert "hub.import_table" in shell("import", str(tmp_path / "x.csv"), "lab/array:v1", code=1)


def test_du_of_a_version_says_what_it_shares(root):
    field = hub.Schema({"x": hub.Field("u1", (100_000,))})
    for version, reference in (("v1", None), ("v2", "lab/t:v1")):
        with hub.table_writer(f"lab/t:{version}", field, reference=reference, root=root) as w, w.partition("a") as p:
            p.append({"x": np.arange(100_000, dtype="u1")})
    command = [sys.executable, "-m", "hubarray", "du", "lab/t:v2", "--json", "--root", root.url]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert result["shared"] > 100_000 > result["own"]


def test_throughput_says_how_fast_an_epoch_is_read(filled, tmp_path):
    told = json.loads(filled("throughput", "lab/x:v0", "--seconds", "1", "--json"))
    assert told["samples_per_second"] > 100
    assert told["bytes_per_second"] == pytest.approx(told["samples_per_second"] * 24)
    assert 0 < told["wait_p50_seconds"] <= told["wait_p99_seconds"]
    assert 0 < told["shuffled_together"] <= 1
    said = filled("throughput", "lab/x:v0", "--seconds", "1", "--batches", "--shuffle-rows")
    assert "samples/s" in said
    assert "of the rows" in said


def test_throughput_tells_requests_memory_and_hits_of_what_this_process_reads(shell):
    schema = hub.Schema({"id": hub.Field("i8"), "x.v": hub.Field("f8", (1000,))})
    with hub.table_writer("lab/t:v1", schema, root=shell.root) as w, w.partition("a") as p:
        p.extend([{"id": i, "x.v": np.full(1000, i, "f8")} for i in range(50)])
    told = json.loads(shell("throughput", "lab/t:v1", "--seconds", "1", "--json"))
    assert told["requests"] > 0
    assert 0.5 < told["cache_hits"] <= 1
    assert told["memory_bytes"] > 10 << 20
    told = json.loads(shell("throughput", "lab/t:v1", "--seconds", "1", "--pool", "process", "--json"))
    assert told["requests"] is None


@pytest.mark.parametrize("pool", ["thread", "process"])
def test_throughput_tells_the_hits_of_a_cache_of_row_groups(shell, tmp_path, pool):
    pq.write_table(pa.table({"id": np.arange(100)}), tmp_path / "a.parquet", row_group_size=10)
    given = ("throughput", str(tmp_path / "a.parquet"), "--seconds", "1", "--pool", pool, "--json")
    assert json.loads(shell(*given))["cache_hits"] is None
    assert json.loads(shell(*given, "--cache"))["cache_hits"] > 0.5


def test_petastorm_datasets_are_shown_summarised_and_copied(shell, tmp_path):
    source = Path(__file__).parent.parent / "golden" / "petastorm" / "0.7.6"
    place = shutil.copytree(source, tmp_path / "data")
    told = json.loads(shell("petastorm", "metadata", str(place), "--json"))
    assert told["rows"] == 20
    assert told["schema"]["fields"]
    assert not (place / "_hubarray_summary.json").exists()
    assert "a Unischema" in shell("petastorm", "metadata", str(place), "--write")
    assert (place / "_hubarray_summary.json").exists()
    some = ["--fields", "id", "matrix", "matrix_nullable"]
    assert "20 rows copied" in shell("petastorm", "copy", str(place), str(tmp_path / "all"), *some)
    with hub.make_reader(place, ["id", "matrix"]) as one, hub.make_reader(tmp_path / "all", ["id", "matrix"]) as two:
        first, second = ({int(row.id): row.matrix for row in rows} for rows in (one, two))
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[i], second[i]) for i in first)
    assert "20 rows" in shell("petastorm", "copy", str(place), str(tmp_path / "some"), *some, "--not-null", "matrix")
    none = shell("petastorm", "copy", str(place), str(tmp_path / "x"), *some, "--not-null", "matrix_nullable", code=1)
    assert "no rows were written" in none
    assert "not among" in shell("petastorm", "copy", str(place), str(tmp_path / "x"), "--not-null", "y", code=1)
    assert "one to copy it to" in shell("petastorm", "copy", str(place), code=1)
    split = tmp_path / "split"
    assert "20 rows" in shell(
        "petastorm", "copy", str(place), str(split), "--fields", "id", "id2", "--partition-by", "id2"
    )
    assert "id2 int32, of folders" in " ".join(shell("petastorm", "metadata", str(split)).split())
    assert "summary written" in " ".join(shell("petastorm", "metadata", str(split), "--write").split())


def test_info_of_a_dataset_keeps_dimensions_apart_from_attributes_of_the_same_name(shell):
    spec = hub.ArraySpec((2, 64), dims=("y", "x"))
    dataset = hub.dataset({"a": spec}, "lab/same:v1", attrs={"x": 1}, root=shell.root)
    lines = [line.split() for line in shell("info", "lab/same:v1").splitlines()]
    assert lines[lines.index(["dimensions"]) + 1 :][:2] == [["y", "2"], ["x", "64"]]
    assert lines[lines.index(["attrs"]) + 1] == ["x", "1"]
    hub.copy("lab/same:v1", "lab/other:v1", root=shell.root)
    hub.store(dataset["a"], "lab/alone:v1", root=shell.root)
    assert said(shell, "info", "lab/alone:v1")["dims"] == ["y", "x"]


def test_doctor_makes_no_folder_of_a_root_that_is_misspelled(tmp_path, capsys):
    assert main(["doctor", "--root", str(tmp_path / "nowhere")]) == 3
    assert "there is no such folder" in capsys.readouterr().out
    assert not (tmp_path / "nowhere").exists()


def test_streams_that_are_closed_or_full_leave_errors_one_line(filled):
    program = f"'{sys.executable}' -m hubarray"
    command = f"{program} info lab/nope:v1 --json --root '{filled.root.url}' 2>&-"
    closed = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert json.loads(closed.stdout)["error"] == "NotFoundError"
    command = f"{program} ls --json --root '{filled.root.url}' > /dev/full"
    full = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (full.returncode, len(full.stderr.splitlines())) == (1, 1)
