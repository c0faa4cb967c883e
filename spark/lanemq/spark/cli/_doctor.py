"""``lanemq spark doctor``: whether the executors of a cluster can run the jobs."""

import click

from lanemq.local import print_line

from ._command import EXIT_FOUND, json_option, master_option, print_json, print_table, session


@click.command()
@master_option
@json_option
def doctor(master: str | None, as_json: bool) -> None:
    """Ask Spark's executors for their Python and packages.

    Exit status: 0 jobs can run there, 1 they would fail, 2 no executor answered.
    """
    with session("doctor", master, check=False) as spark:
        from ..jobs import doctor as run

        done = run(spark)
    if as_json:
        print_json(done)
    else:
        print_table(
            ("host", "python", "version", "packages"),
            [
                (
                    one.host,
                    one.python,
                    one.version,
                    ", ".join(f"{name} {there}" for name, there in one.packages.items()) or "none",
                )
                for one in done
            ],
        )
        for one in done:
            for problem in one.problems:
                print_line(problem)
    if any(one.problems for one in done):
        raise SystemExit(EXIT_FOUND)
