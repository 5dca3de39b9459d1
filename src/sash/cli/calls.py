"""Every call from the command line into the rest of Sash, in one place.

The imports stand inside the functions because they are heavy (Arrow, numba, Spark) and most commands need
few of them: `sash --help` should not take a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sash.cli.hints import Hints
from sash.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.engine.observe.report import Monitor, Summary
    from sash.lang import Program
    from sash.plan.explain.measured import Run
    from sash.transactions.verify import Verification


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Where the metrics of a run go; with a port, to whoever asks there."""

    file: Path | None = None
    prometheus: Path | None = None
    port: int | None = None
    host: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user chose for a run."""

    runtime: str = "spark"
    master: str = "local[*]"
    checkpoint: Path | None = None
    batch_rows: int | None = None
    partitions: int | None = None
    dead_letters: Path | None = None
    debug: bool = False
    metrics: MetricsOptions = MetricsOptions()
    max_state: int | None = None
    max_memory: int | None = None
    record_history: Path | None = None
    refresh: str = "exact"
    policy: str | None = None
    max_queries: int | None = None
    max_driver_groups: int | None = None
    max_driver_update: int | None = None
    fail_on_rejects: float | None = None
    trigger: float | None = None
    max_batch_time: float | None = None


def bind(text: str) -> Program:
    from sash.lang import bind_program

    return bind_program(text)


def check(program: Program, base_dir: Path) -> None:
    """Raise what a run of the program would refuse before it reads data; files are not looked at."""
    from sash.engine.program_check import check_program

    check_program(program, base_dir)


def run(
    program: Program,
    base_dir: Path,
    options: RunOptions,
    monitor: Monitor,
    stop: threading.Event,
) -> Summary:
    from sash.runtime.run import run_program

    return run_program(
        program,
        base_dir=base_dir,
        runtime=options.runtime,
        master=options.master,
        checkpoint=options.checkpoint,
        batch_rows=options.batch_rows,
        partitions=options.partitions,
        max_state=options.max_state,
        max_memory=options.max_memory,
        dead_letters=options.dead_letters,
        record_history=options.record_history,
        refresh=options.refresh,
        policy=options.policy,
        max_queries=options.max_queries,
        max_driver_groups=options.max_driver_groups,
        max_driver_update=options.max_driver_update,
        fail_on_rejects=options.fail_on_rejects,
        trigger=options.trigger,
        max_batch_time=options.max_batch_time,
        debug=options.debug,
        monitor=monitor,
        stop=stop,
    )


@contextmanager
def watched(view: Monitor, options: MetricsOptions) -> Iterator[Monitor]:
    """The view, and whatever else is to be told of the run."""
    if options == MetricsOptions():
        yield view
        return
    from sash.engine.observe.metrics import JsonLinesMetrics, PrometheusMetrics
    from sash.engine.observe.metrics.server import served
    from sash.engine.observe.report import Monitors

    with ExitStack() as stack:
        monitors = [view]
        if options.file is not None:
            monitors.append(JsonLinesMetrics(options.file, view.warning))
        if options.prometheus is not None or options.port is not None:
            page = None
            if options.port is not None:
                page = stack.enter_context(served(options.host, options.port))
            monitors.append(PrometheusMetrics(view.warning, options.prometheus, page))
        yield Monitors(*monitors)


def size(text: str | None, option: str) -> int | None:
    """Bytes, as the user wrote them."""
    from sash.engine.sizes import parse_size

    return None if text is None else parse_size(text, option)


def share(text: str | None, option: str) -> float | None:
    """A share of rows, as the user wrote it."""
    from sash.engine.ingest.loss import share_of

    return share_of(text, option)


def seconds(text: str | None, option: str) -> float | None:
    """A duration, as the user wrote it."""
    from sash.engine.sizes import parse_seconds

    return None if text is None else parse_seconds(text, option)


def explain(
    program: Program,
    form: str | None,
    query: str | None,
    run: Run | None = None,
    checkpoint: Path | None = None,
) -> str:
    """`checkpoint`: that of a run of the program, of which something is to be said, too."""
    from sash.engine.observe.explaining import PLANNED, explained
    from sash.engine.reads.checkpoint_reader import CheckpointReader

    fares = PLANNED if checkpoint is None else CheckpointReader(checkpoint).fares()
    return explained(program, form, query, run, fares)


def analyzes(program: Program) -> bool:
    """Whether some EXPLAIN of the program says ANALYZE."""
    return any(definition.analyze for definition in program.explains)


def analyze(
    program: Program,
    base_dir: Path,
    runtime: str,
    monitor: Monitor,
    stop: threading.Event,
    *,
    everything: bool,
) -> Run:
    from sash.runtime.analyze import analyze

    return analyze(
        program, base_dir=base_dir, runtime=runtime, everything=everything, monitor=monitor, stop=stop
    )


def experiments() -> Mapping[str, str]:
    """Name to one line of description."""
    found = _experiments().all_experiments()
    return {name: experiment.title for name, experiment in sorted(found.items())}


def run_experiment(name: str, scale: str, out: Path, note: Callable[[str, float], None]) -> str:
    """Runs one experiment; the text that its result shows to a person."""
    return str(_experiments().run_experiment(name, scale, out, note))


def _experiments() -> Any:
    """The experiments, which are a distribution of their own."""
    try:
        return import_module("sash_experiments.registry")
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "sash_experiments":
            raise
        raise UserError(
            "the experiments are not installed",
            hint="pip install sash-experiments; in a checkout of Sash: pip install ./experiments",
            id="not-installed",
        ) from None


def verify_history(path: Path) -> Verification:
    """What a recorded history holds, and the first query whose promised isolation was not kept."""
    from sash.transactions.verify import verify_file

    return verify_file(path)


def hints(program: Program) -> Hints:
    """What a view should know of the program."""
    units = {stream.unit if stream.has_integer_time else None for stream in program.streams}
    keys: dict[str, frozenset[str]] = {}
    rank: dict[str, str] = {}
    for query in program.queries:
        select = query.select
        if select is None or not select.is_grouped:
            continue
        named = {output.name for output in select.outputs if _is_key(output.scalar.column)}
        keys[query.name] = frozenset(named)
        measures = [name for name, kind in select.schema if name not in named and kind.is_numeric]
        if measures:
            rank[query.name] = measures[0]
    # Streams that count in different units have no integer in common: their clock is shown as time.
    return Hints(unit=units.pop() if len(units) == 1 else None, keys=keys, rank=rank)


def _is_key(column: str | None) -> bool:
    """Grouped rows call their keys k0, k1, …"""
    return column is not None and column.startswith("k")


_STDOUT = (":/dev/stdout", ":/dev/fd/1", ":/proc/self/fd/1")


def prints_results(program: Program) -> bool:
    """Whether some query writes its results to standard output."""
    sinks = [query.sink.strip() for query in program.queries]
    return any(sink.partition(":")[0].lower() == "console" or sink.endswith(_STDOUT) for sink in sinks)


def ask(
    checkpoint: Path | None, archives: Sequence[Path], version: int | None, text: str, isolation: str | None
) -> tuple[pa.Table, str]:
    """The answer of a one-time query, and a line that says of when it is, and its isolation.

    A line more for each column that is approximate.
    """
    from sash.cli.format import instant
    from sash.engine.reads.checkpoint_reader import CheckpointReader, ask_archives
    from sash.errors import UserError
    from sash.operators.bounds import told_bounds
    from sash.transactions.events import Isolation

    if (checkpoint is None) == (not archives):
        raise UserError(
            "a question is about a checkpoint or about archives",
            hint="name one with --checkpoint DIR, or archives with --archive DIR",
            id="not-a-question",
        )
    if version is not None and len(archives) != 1:
        raise UserError(
            "a version is one of an archive", hint="name it with --archive DIR", id="not-a-question"
        )
    units: set[int | None] = set()
    if checkpoint is None:
        answer = ask_archives(archives, text, version)
    else:
        reader = CheckpointReader(checkpoint)
        answer = reader.ask(text, isolation=None if isolation is None else Isolation(isolation))
        streams = reader.known().streams.values()
        units = {stream.unit if stream.has_integer_time else None for stream in streams}
    when = "before the first instant"
    if answer.instant is not None:
        when = f"at {instant(answer.instant, units.pop() if len(units) == 1 else None)}"
    bounds = (f"\napproximate: {name} is {bound}" for name, bound in told_bounds(answer.table.schema).items())
    return answer.table, f"{when} ({answer.isolation}){''.join(bounds)}"


def print_table(table: pa.Table, form: str) -> None:
    """A table on standard output, all of it: raises OSError if that takes no more."""
    import io
    import sys

    from sash.connectors.sinks.console import ConsoleSink
    from sash.connectors.sinks.jsonl import json_objects

    if form == "jsonl":
        sys.stdout.writelines(f"{line}\n" for line in json_objects(table).cast("string").to_pylist())
    elif form == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(table, sys.stdout.buffer)
    else:
        lines = io.StringIO()
        ConsoleSink("console:", table.schema, lines).write(table)
        sys.stdout.write(lines.getvalue() or "(no rows)\n")
    sys.stdout.flush()


def print_archives(program: Program, base_dir: Path) -> None:
    """What SHOW ARCHIVES lists: how they are now."""
    from sash.engine.reads.archive_read import described

    for statement in program.shows:
        if statement.kind == "archive":
            print(f"{' '.join(statement.text.split()).rstrip(';')}: {len(program.archives)}")
            if program.archives:
                print_table(described(program.archives, base_dir), "table")


def print_answers(program: Program, summary: Summary) -> None:
    """The answers of one-time queries, each under its text."""
    for query, table in zip(program.one_time, summary.once.values(), strict=False):
        print(f"{' '.join(query.text.split())}")
        print_table(table, "table")
