"""The program of a user who checks types runs, too; ``make check`` looks at its types."""

from tests.typed import program


def test_the_typed_program_runs(root):
    assert program.arrays(root).shape == (2, 8, 8)
    assert program.datasets(root).dims["sample"] == 3
    assert program.tables(root) == 2
    assert sorted(program.rows(root)) == [0, 1, 2, 3]
    assert "lab/nothing" in program.errors(root)
    assert len(program.kinds(root)) == 3
