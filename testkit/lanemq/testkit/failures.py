"""Failed tests are named at once, loaded by pytest.

With ``--quiet`` pytest tells which tests failed at the end of a run of an hour, and not at all
where the run is cut off.
"""

import pytest


class _Failures:
    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.ensure_newline()
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message.partition("\n")[0] if crash is not None else ""
            self._terminal.write_line(f"failed: {report.nodeid} ({report.when}): {why[:200]}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Look on where results come together: workers of xdist have no terminal."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, pytest.TerminalReporter) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(terminal))
