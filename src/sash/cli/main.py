"""The commands of `sash`: what they take, and what they do in a few lines each."""

from __future__ import annotations

import enum
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sash import standard_streams
from sash.cli import calls, demo
from sash.cli.attended import attend
from sash.cli.calls import MetricsOptions, RunOptions
from sash.cli.failures import guarded, output_failed
from sash.cli.program_text import read_program
from sash.errors import UserError
from sash.files import local_place

app = typer.Typer(
    name="sash",
    help="Standing CQL queries over sliding windows of data streams, on Apache Spark.",
    epilog="Example:  [bold]sash run traffic.cql[/]   ·   See it work:  [bold]sash demo[/]",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
experiment_app = typer.Typer(
    help="The published experiments, run again.",
    epilog="Example:  [bold]sash experiment run NAME --scale small[/]",
    no_args_is_help=True,
)
app.add_typer(experiment_app, name="experiment")


STDOUT = 1


def _local(text: str | Path) -> Path:
    try:
        return Path(local_place(text, ""))
    except UserError as error:
        got = f", but {error.got}" if error.got else ""
        raise typer.BadParameter(f"{error.message}{got}; expected {error.expected}") from None


class Runtime(enum.StrEnum):
    spark = "spark"
    inline = "inline"


class Form(enum.StrEnum):
    text = "text"
    json = "json"
    svg = "svg"


class Output(enum.StrEnum):
    table = "table"
    jsonl = "jsonl"
    csv = "csv"


class Level(enum.StrEnum):
    lws = "lws"
    ws = "ws"


class Refresh(enum.StrEnum):
    exact = "exact"
    elastic = "elastic"


class Scale(enum.StrEnum):
    small = "small"
    medium = "medium"
    paper = "paper"


ProgramFile = Annotated[
    str, typer.Argument(metavar="FILE.cql", help="A CQL program; - reads it from standard input.")
]
RuntimeOption = Annotated[
    Runtime, typer.Option(help="Where the pipeline runs: on Spark, or in this process without Java.")
]
MasterOption = Annotated[
    str, typer.Option(metavar="M", help="The Spark master: local[*], local[2], spark://host:7077.")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors and warnings, on standard error.")
]
MetricsOption = Annotated[
    Path | None,
    typer.Option(
        parser=_local,
        metavar="FILE",
        help="Append a JSON object a batch: rows, times, lag, state by operator.",
    ),
]
PrometheusOption = Annotated[
    Path | None,
    typer.Option(
        parser=_local,
        metavar="FILE",
        help="Replace this file after every batch, in the format of Prometheus.",
    ),
]
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        metavar="PORT", min=1, max=65535, help="Serve the same at http://127.0.0.1:PORT/metrics meanwhile."
    ),
]
MetricsHostOption = Annotated[
    str, typer.Option(metavar="HOST", help="The address for --metrics-port; 0.0.0.0 for all.")
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the full trace of a failure.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        python = f"Python {platform.python_version()}"
        typer.echo(f"sash {_version('sash-streams')} ({python}, pyspark {_version('pyspark')})")
        raise typer.Exit


@app.callback()
def sash(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and leave.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    pass


@app.command(epilog="Example:  [bold]sash run traffic.cql --checkpoint state/[/]")
def run(
    file: ProgramFile,
    runtime: RuntimeOption = Runtime.spark,
    master: MasterOption = "local[*]",
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            parser=_local,
            metavar="DIR",
            help="Keep the state here, and go on from it after a stop or a crash.",
        ),
    ] = None,
    batch_rows: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Read at most so many rows a micro-batch.")
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time between the starts of batches of live streams, such as 250ms or 1s (default 100ms "
            "inline, 500ms on Spark).",
        ),
    ] = None,
    max_batch_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Read as much in a batch as it can answer in this time (default 10s), or none.",
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Divide operators by key among so many; else one for each core."
        ),
    ] = None,
    dead_letters: Annotated[
        Path | None,
        typer.Option(
            parser=_local,
            metavar="DIR",
            help="Where the files of late and rejected rows go.",
        ),
    ] = None,
    aside: Annotated[
        Path | None, typer.Option(parser=_local, metavar="DIR", hidden=True, help="The old --dead-letters.")
    ] = None,
    max_state: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="End the run when a partition's state is larger, such as 2GB, or none."
        ),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="End the run when the driver's process takes more memory."),
    ] = None,
    record_history: Annotated[
        Path | None,
        typer.Option(
            parser=_local,
            metavar="FILE",
            help="Write down the movements of windows, for sash verify-history to check.",
        ),
    ] = None,
    refresh: Annotated[
        Refresh,
        typer.Option(
            help="exact: every multiple of SLIDE is answered; elastic: the newest one, when time allows."
        ),
    ] = Refresh.exact,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The scheduler of --refresh elastic; hybrid-late-pending if none is named."
        ),
    ] = None,
    max_queries: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Refuse to have more queries at a time.")
    ] = None,
    max_driver_groups: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Divide a GROUP BY of more groups among partitions; 1,000,000 unless told, 0: always.",
        ),
    ] = None,
    max_driver_update: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Have Spark tasks do updates of archives that read and write more; unless told 1GB, on a "
            "cluster 128MB; none: the driver does all.",
        ),
    ] = None,
    fail_on_rejects: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="End with exit code 1 if more of a stream's rows are late or rejected, such as 0.1 or 10%, "
            "or if all are.",
        ),
    ] = None,
    metrics: MetricsOption = None,
    prometheus: PrometheusOption = None,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a program until its input ends or you press Ctrl-C.

    The first Ctrl-C stops after the batch that is being worked on, or abandons it after a second; a second
    one leaves at once. Outputs end at the last commit.
    """
    with guarded(debug=debug):
        text, base_dir = read_program(file)
        told = MetricsOptions(metrics, prometheus, metrics_port, metrics_host)
        if aside is not None:
            typer.echo("warning: --aside is called --dead-letters now", err=True)
        options = RunOptions(
            runtime,
            master,
            checkpoint,
            batch_rows,
            partitions,
            dead_letters or aside,
            debug,
            told,
            calls.size(max_state, "--max-state"),
            calls.size(max_memory, "--max-memory"),
            record_history,
            refresh.value,
            policy,
            max_queries,
            max_driver_groups,
            calls.size(max_driver_update, "--max-driver-update"),
            calls.share(fail_on_rejects, "--fail-on-rejects"),
            calls.seconds(trigger, "--trigger"),
            calls.seconds(max_batch_time, "--max-batch-time"),
        )
        _run(text, base_dir, options, quiet=quiet)


@app.command(
    epilog='Example:  [bold]sash query --checkpoint state "SELECT COUNT(*) FROM packets \\[RANGE 1 MIN]"[/]'
)
def query(
    text: Annotated[str, typer.Argument(metavar="SELECT", help="A one-time query.")],
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            parser=_local,
            metavar="DIR",
            help="The checkpoint of a pipeline that runs, or has run.",
        ),
    ] = None,
    archive: Annotated[
        list[Path] | None,
        typer.Option(
            parser=_local,
            metavar="DIR",
            help="The directory of an archive, which needs no pipeline; may repeat.",
        ),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(metavar="N", help="An earlier version of the archive that is still there."),
    ] = None,
    isolation: Annotated[
        Level | None,
        typer.Option(
            help="The state that the answer is of: the newest when it is ready (lws, the default), or that "
            "when it was asked (ws)."
        ),
    ] = None,
    form: Annotated[Output, typer.Option("--format", help="A table, or JSON lines, or CSV.")] = Output.table,
    debug: DebugOption = False,
) -> None:
    """Answer a SELECT once, over the windows of a pipeline as its last committed batch left them.

    The streams must keep the rows that the windows hold (CREATE STREAM … RETAIN). The pipeline is neither
    stopped nor slowed down. With --archive it is answered from an archive, under the name that CREATE ARCHIVE
    gave it.
    """
    with guarded(debug=debug):
        level = None if isolation is None else isolation.value
        table, instant = calls.ask(checkpoint, archive or [], version, text, level)
        calls.print_table(table, form.value)
        typer.echo(instant, err=True)


@app.command(epilog="Example:  [bold]sash check traffic.cql[/]")
def check(file: ProgramFile, debug: DebugOption = False) -> None:
    """Refuse what a run of the program would refuse before it reads data; print its streams and queries."""
    from sash.cli import described

    with guarded(debug=debug):
        text, base_dir = read_program(file)
        program = calls.bind(text)
        calls.check(program, base_dir)
        for line in described.describe(program):
            typer.echo(line)


@app.command(epilog="Example:  [bold]sash explain traffic.cql --format svg --query heavy > heavy.svg[/]")
def explain(
    file: ProgramFile,
    form: Annotated[
        Form | None,
        typer.Option("--format", help="A tree, JSON, or a picture; else as each EXPLAIN says, or a tree."),
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="NAME", help="Explain only this query.")] = None,
    analyze: Annotated[
        bool,
        typer.Option("--analyze", help="Run the queries over their input first, and show what was measured."),
    ] = False,
    runtime: Annotated[Runtime, typer.Option(help="Where --analyze runs the queries.")] = Runtime.inline,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            parser=_local,
            metavar="DIR",
            help="Show how queries fare in the run that has its checkpoint there, too.",
        ),
    ] = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Print how the queries of a program will be computed; with --analyze or ANALYZE, how they were."""
    with guarded(debug=debug):
        text, base_dir = read_program(file)
        chosen = None if form is None else form.value
        program = calls.bind(text)
        if not analyze and not calls.analyzes(program):
            typer.echo(calls.explain(program, chosen, query, checkpoint=checkpoint).rstrip("\n"))
            return
        from sash.cli import views

        # Progress goes to stderr: the explanation is what a pipe wants.
        with views.choose(calls.hints(program), runtime=runtime, quiet=quiet, prints_results=True) as view:
            run = attend(
                lambda stop: calls.analyze(program, base_dir, runtime, view, stop, everything=analyze), view
            )
        typer.echo(calls.explain(program, chosen, query, run, checkpoint).rstrip("\n"))


@app.command("demo", epilog="Example:  [bold]sash demo --seconds 60 --rate 20000 --keep my-demo[/]")
def run_demo(
    seconds: Annotated[int, typer.Option(metavar="S", min=1, help="How long the traffic lasts.")] = 30,
    rate: Annotated[int, typer.Option(metavar="R", min=1, help="Packets a second.")] = 5000,
    runtime: RuntimeOption = Runtime.spark,
    master: MasterOption = "local[*]",
    keep: Annotated[
        Path | None,
        typer.Option(
            parser=_local,
            metavar="DIR",
            help="Keep the program and the results here; else nothing is left behind.",
        ),
    ] = None,
    metrics: MetricsOption = None,
    prometheus: PrometheusOption = None,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Watch five standing queries over made-up network traffic."""
    with guarded(debug=debug), demo.folder(keep) as folder:
        text = demo.program(seconds, rate)
        (folder / demo.PROGRAM_NAME).write_text(text, encoding="utf-8")
        if not quiet:
            _introduce_demo(text, demo.by_hand(keep, seconds, rate))
        told = MetricsOptions(metrics, prometheus, metrics_port, metrics_host)
        options = RunOptions(runtime, master, dead_letters=folder / "dead-letters", debug=debug, metrics=told)
        _run(text, folder, options, quiet=quiet, is_kept=keep is not None)


@app.command("verify-history", epilog="Example:  [bold]sash verify-history history.jsonl[/]")
def verify_history(
    file: Annotated[
        Path,
        typer.Argument(
            parser=_local,
            metavar="FILE",
            help="A history that a run with --record-history wrote.",
        ),
    ],
    debug: DebugOption = False,
) -> None:
    """Check that every query of a recorded run got the isolation that it was promised.

    Exit code 1 and an explanation of the first query that did not; 2 if the file is no history.
    """
    with guarded(debug=debug):
        found = calls.verify_history(file)
        for line in found.lines:
            typer.echo(line)
        if found.violation is not None:
            typer.echo(f"not kept: {found.violation}", err=True)
            raise typer.Exit(1)


@experiment_app.command("list", epilog="Example:  [bold]sash experiment list[/]")
def list_experiments(debug: DebugOption = False) -> None:
    """List the experiments."""
    with guarded(debug=debug):
        found = calls.experiments()
        width = max(map(len, found), default=0)
        for name, about in found.items():
            typer.echo(f"{name:<{width}}  {about}".rstrip())


@experiment_app.command("run", epilog="Example:  [bold]sash experiment run NAME --out results/[/]")
def run_experiment(
    name: Annotated[str, typer.Argument(help="A name that `sash experiment list` shows.")],
    scale: Annotated[
        Scale,
        typer.Option(
            help="small: minutes on a laptop; paper: the sizes of the publication; some have medium."
        ),
    ] = Scale.small,
    out: Annotated[
        Path,
        typer.Option(
            parser=_local,
            metavar="DIR",
            help="Where tables and figures go.",
        ),
    ] = Path("results"),
    debug: DebugOption = False,
) -> None:
    """Run one experiment and write its tables and figures."""
    with guarded(debug=debug):
        with _progress() as note:
            shown = calls.run_experiment(name, scale.value, out, note)
        typer.echo(shown)
        typer.echo(f"written: {out / name}.json, {out / name}.png")


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    """A bar on standard error, or a line a step where that is no terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda doing, share: typer.echo(f"{share:4.0%}  {doing}", err=True)
        return
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda doing, share: progress.update(task, description=doing, completed=share)


def _run(text: str, base_dir: Path, options: RunOptions, *, quiet: bool, is_kept: bool = True) -> None:
    # Rich's live display is needed here only, and it is not light.
    from sash.cli import described, views

    program = calls.bind(text)
    prints = calls.prints_results(program)
    view = views.choose(
        replace(calls.hints(program), is_kept=is_kept),
        runtime=str(options.runtime),
        quiet=quiet,
        prints_results=prints,
    )
    for line in described.shown(program):
        typer.echo(line)
    with calls.watched(view, options.metrics) as monitor, view:
        printing = STDOUT if prints or not quiet else None
        summary = attend(lambda stop: calls.run(program, base_dir, options, monitor, stop), view, printing)
    calls.print_answers(program, summary)
    calls.print_archives(program, base_dir)


def _introduce_demo(text: str, commands: tuple[str, ...]) -> None:
    console = Console(soft_wrap=True, highlight=False)
    if console.is_terminal:
        from rich.syntax import Syntax

        console.print(Syntax(text, "sql", theme="ansi_dark", background_color="default", word_wrap=True))
    else:
        console.print(Text(text))
    console.print(Text("The same by hand:", style="bold"))
    for command in commands:
        console.print(Text(f"  {command}"))
    console.print()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def main() -> None:
    """The `sash` program."""
    standard_streams.prepare()
    try:
        app()
    except SystemExit as leaving:
        if isinstance(leaving.code, int) and leaving.code > 128:
            # Stopped by a signal: the thread of the run may still be in a batch, and nobody waits for it.
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):
                    stream.flush()
            os._exit(leaving.code)
        raise
    except OSError as failure:
        # Help, the version.
        if failure.filename != standard_streams.STANDARD_OUTPUT:
            raise
        sys.exit(output_failed(failure))
