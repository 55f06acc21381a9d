"""What the suite says of itself while it runs."""

import io

import pytest
from _pytest.terminal import TerminalReporter

from tests.conftest import say


class Watched(io.StringIO):
    def __init__(self, watched):
        super().__init__()
        self._watched = watched

    def isatty(self):
        return self._watched


@pytest.mark.parametrize("watched", [True, False])
def test_a_terminal_is_told_what_the_run_waits_for_and_a_log_is_not(pytestconfig, monkeypatch, watched):
    output = Watched(watched)
    reporter = TerminalReporter(pytestconfig, output)
    monkeypatch.setattr(pytestconfig.pluginmanager, "get_plugin", {"terminalreporter": reporter}.get)
    say(pytestconfig, "starting a server …")
    assert ("starting a server …\n" in output.getvalue()) == watched
