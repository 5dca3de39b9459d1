"""Window clauses to window specifications."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sash.errors import BindError, UnknownName
from sash.lang import intervals, nodes
from sash.lang.algebra import Field, Node, Window, WindowKind, WindowSpec
from sash.lang.context import Context
from sash.lang.growth import level_nodes

# Microseconds stay exact in a double, which sinks and notebooks may use.
MAX_WINDOW = 2**53
UNBOUNDED = WindowSpec(WindowKind.UNBOUNDED)


def bind_window(
    clause: nodes.WindowClause,
    ctx: Context,
    columns: Mapping[str, Field],
    unit: int = 1,
    stream: str | None = None,
) -> WindowSpec:
    """The window over rows of `columns`; `unit` is that of the time of the stream, if it is one."""
    kind = WindowKind(clause.args["kind"])
    slide = _slide(clause, ctx, unit, stream)
    length = clause.args.get("range")
    size = None if length is None else _length("RANGE", length, ctx)
    rows = clause.args.get("rows")
    return WindowSpec(
        kind=kind,
        range=size,
        rows=None if rows is None else _count("ROWS", rows, ctx),
        partition=_partition(clause, ctx, columns),
        slide=slide,
        offset=_offset(clause, kind, size, ctx),
        is_internal=bool(clause.args.get("internal")),
    )


def bind_output_window(clause: nodes.WindowClause, ctx: Context) -> WindowSpec:
    """The window of Wstream: [ROWS n] or [RANGE t] and nothing else."""
    plain = not any(clause.args.get(key) for key in ("partition", "slide", "offset", "internal"))
    if clause.args["kind"] not in ("rows", "range") or not plain:
        raise BindError(
            "a window that an output cannot have",
            place=ctx.place(clause),
            expected="[ROWS n] or [RANGE t]",
            got=nodes.source_of(clause, ctx.text),
        )
    return bind_window(clause, ctx, {})


def check_slides(node: Node, ctx: Context) -> None:
    """The windows of one level slide together."""
    windows = [found for found in level_nodes(node) if isinstance(found, Window)]
    for window in windows[1:]:
        first = windows[0]
        if _slide_key(window.spec) != _slide_key(first.spec):
            raise BindError(
                "the windows of one query slide differently",
                place=ctx.window_place(window),
                expected=written_slide(first.spec),
                got=written_slide(window.spec),
                hint="give all windows of the query the same SLIDE, or none",
            )


def written_slide(spec: WindowSpec) -> str:
    if spec.slide is None:
        return "no SLIDE"
    if spec.kind is WindowKind.ROWS:
        return f"SLIDE {spec.slide} ROWS"
    return f"SLIDE {intervals.write(spec.slide)}"


def _slide_key(spec: WindowSpec) -> tuple[bool, int] | None:
    return None if spec.slide is None else (spec.kind is WindowKind.ROWS, spec.slide)


def _slide(clause: nodes.WindowClause, ctx: Context, unit: int, stream: str | None) -> int | None:
    node = clause.args.get("slide")
    if node is None:
        return None
    if isinstance(node, exp.Literal):
        return _count("SLIDE", node, ctx)
    slide = _length("SLIDE", node, ctx)
    if slide % unit:
        written = intervals.write(unit)
        raise BindError(
            f"SLIDE must be a multiple of {written}, the unit of the timestamps of '{stream}'",
            place=ctx.place(node),
            expected=f"a multiple of {written}",
            got=intervals.write(slide),
            hint="a finer unit is set with WITH (unit = 'ms') or 'us' if the timestamps count in it",
        )
    return slide


def _length(what: str, duration: exp.Expression, ctx: Context) -> int:
    length = int(duration.this.this)
    if not 0 < length < MAX_WINDOW:
        raise BindError(
            f"{what} must be longer than nothing and shorter than 2^53 microseconds",
            place=ctx.place(duration),
            got=intervals.write(length),
        )
    return length


def _count(what: str, literal: exp.Expression, ctx: Context) -> int:
    count = int(literal.this)
    if count < 1:
        raise BindError(
            f"{what} must be at least one row", place=ctx.place(literal), expected="1 or more", got=str(count)
        )
    return count


def _offset(clause: nodes.WindowClause, kind: WindowKind, size: int | None, ctx: Context) -> int:
    node = clause.args.get("offset")
    if node is None:
        return 0
    offset: int = node.microseconds
    if kind in (WindowKind.ROWS, WindowKind.NOW):
        raise BindError(
            f"OFFSET does not go with {kind.value.upper()}",
            place=ctx.place(node),
            expected="OFFSET in a window of RANGE",
        )
    if offset >= (MAX_WINDOW if size is None else size):
        raise BindError(
            "an OFFSET that leaves nothing of the window",
            place=ctx.place(node),
            expected=f"less than {intervals.write(MAX_WINDOW if size is None else size)}",
            got=intervals.write(offset),
            hint="[RANGE 2 MIN OFFSET 1 MIN] holds what is between 1 and 2 minutes old",
        )
    return offset


def _partition(clause: nodes.WindowClause, ctx: Context, columns: Mapping[str, Field]) -> tuple[str, ...]:
    names: list[str] = []
    for identifier in clause.args.get("partition") or ():
        field = columns.get(identifier.name)
        if field is None:
            raise UnknownName("column", identifier.name, columns, place=ctx.place(identifier))
        names.append(field.name)
    return tuple(dict.fromkeys(names))
