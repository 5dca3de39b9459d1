"""Hypothesis strategies for programs that join non-retroactive relations with all kinds of rows."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume
from hypothesis import strategies as st

from sash.errors import SashError
from sash.lang import bind_program
from sash.lang.intervals import write as write_interval
from sash.plan.run_plan import plan_run
from sash.testing.inputs import made_streams
from sash.testing.relations import MadeChange, MadeRelation
from sash.testing.scenario import Scenario
from sash.testing.streams import MadeStream

_WORDS = ("a", "b", "c", "d", "e")
_FORMS = (
    "{one} {w}",
    "{one} {w}",
    "(SELECT g, k, n FROM {one} UNION ALL SELECT g, k, n + 10 FROM {two}) {w}",
    "(SELECT g, k, n FROM {one} {w} UNION ALL SELECT g, k, n + 10 FROM {two} {v})",
    "(SELECT g + 0 AS g, k, n FROM {one} {w} WHERE n > 0)",
    "(SELECT x.g, r.k, x.n FROM {one} {w} x, r0 r WHERE x.g = r.g)",
    "(SELECT x.g, x.k, y.n FROM {one} {w} x, {two} {v} y WHERE x.g = y.g)",
    "(SELECT g, k, n FROM {one} {w} x WHERE EXISTS (SELECT * FROM {two} {v} y WHERE x.g = y.g))",
    "(Istream(SELECT g, k, n FROM {one} [RANGE {short}])) {w}",
)
_SELECTS = ("{a}.n AS c0, r.k AS c1", "r.k AS c0, {b}.k AS c1, {a}.n AS c2", "r.k AS c0, COUNT(*) AS c1")
_OPERATORS = ("", "Istream", "Rstream", "Dstream")


@st.composite
def arriving_programs(draw: st.DrawFn, *, most_rows: int = 16, most_queries: int = 2) -> Scenario:
    """Queries over streams and relations r0 and r1, which change while rows of the streams arrive."""
    streams = draw(made_streams(2, most_rows, 4))
    relations = (draw(_changing("r0", streams[0])), draw(_changing("r1", streams[0])))
    bodies = draw(st.lists(_body(streams), min_size=1, max_size=most_queries))
    queries = (f"CREATE QUERY q{i} INTO 'jsonl:q{i}.jsonl' AS\n  {body};\n" for i, body in enumerate(bodies))
    scenario = Scenario(streams, tuple(queries), relations)
    assume(_binds(scenario))
    return scenario


def _binds(scenario: Scenario) -> bool:
    try:
        plan_run(bind_program(scenario.text))
    except SashError:
        return False
    return True


@st.composite
def _changing(draw: st.DrawFn, name: str, stream: MadeStream) -> MadeRelation:
    """A relation whose keys change again and again; a deleted one does not come back."""
    known = [row.time for row in stream.rows if row.time is not None]
    now = min(known, default=0) - 1
    there: set[int] = set()
    gone: set[int] = set()
    changes = []
    for step, g, is_deleted, word in draw(
        st.lists(
            st.tuples(
                st.sampled_from((0, 1, 1, 2, 3)),
                st.sampled_from((0, 1, 1, 2)),
                st.sampled_from((False,) * 5 + (True,)),
                st.sampled_from(_WORDS),
            ),
            min_size=2,
            max_size=12,
        )
    ):
        now += step
        if g in gone or (is_deleted and g not in there):
            continue
        operation = "delete" if is_deleted else "update" if g in there else "insert"
        (there.discard if is_deleted else there.add)(g)
        gone.update({g} if is_deleted else ())
        changes.append(MadeChange(g, word, 0.5, now, operation))
    return MadeRelation(name, tuple(changes), ("g",), stream.clock, True, False, "csv")


@st.composite
def _body(draw: st.DrawFn, streams: Sequence[MadeStream]) -> str:
    tick = max(max(stream.clock.tick, stream.clock.size) for stream in streams)
    slide = draw(st.sampled_from((None, 2, 3, 5)))
    is_mixed = draw(st.integers(0, 3)) == 3

    def window(*, is_internal: bool = False) -> str:
        halves, offset = draw(st.sampled_from((8, 4, 13, 20))), draw(st.sampled_from((0, 2, 1, 3, 6)))
        text = f"RANGE {write_interval(halves * tick // 2)}"
        text += f" SLIDE {write_interval(slide * tick)}" if slide is not None else ""
        text += f" OFFSET {write_interval(offset * tick // 2)}" if 0 < offset < halves else ""
        return f"[{text}{' INTERNAL' if is_internal else ''}]"

    def source(number: int) -> str:
        form = "{one} {w}" if is_mixed else draw(st.sampled_from(_FORMS))
        one, two = (draw(st.sampled_from(streams)).name for _ in range(2))
        v, w = window(), window(is_internal=is_mixed and number == 1)
        return f"{form.format(one=one, two=two, v=v, w=w, short=write_interval(2 * tick))} a{number}"

    count = 2 if is_mixed else draw(st.sampled_from((1, 2, 2, 3)))
    read = ", ".join(source(number) for number in range(count))
    conditions = [f"a0.g = a{number}.g" for number in range(1, count)]
    a, b = (f"a{draw(st.integers(0, count - 1))}" for _ in range(2))
    on = draw(st.sampled_from((f"{a}.g = r.g", f"{a}.g = r.g AND {b}.n > r.g", f"{b}.g + 1 = r.g")))
    if draw(st.integers(0, 2)) == 2:
        text, also = f"{read.replace(', ', ' CROSS JOIN ') if count > 1 else read} LEFT JOIN r0 r ON {on}", []
    else:
        text, also = f"{read}, r0 r", [on]
    if draw(st.integers(0, 3)) == 3:
        text, also = f"{text}, r1 q", [*also, f"{b}.g = q.g"]
    where = [*conditions, *also]
    select = draw(st.sampled_from(_SELECTS[: 2 if is_mixed else 3]))
    grouping = " GROUP BY r.k" if "COUNT" in select else ""
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    body = f"SELECT {select.format(a=a, b=b)} FROM {text}{condition}{grouping}"
    operator = draw(st.sampled_from(_OPERATORS))
    return f"{operator}({body})" if operator else body
