"""Dataflows with one part exchanged: what an experiment compares and no query can ask for.

The operators stay what they are; only which of them stands where is decided here instead of by `build`.
"""

from __future__ import annotations

from sash.errors import InternalError
from sash.lang.algebra import Join
from sash.operators.announce import Announcer
from sash.operators.dataflow import Dataflow, Vertex
from sash.operators.join import JoinInput, WindowJoin
from sash.operators.operator import Operator
from sash.state.expirations import Expirations, Fifo
from sash_experiments.stored_view import StoredView


def answer_of(flow: Dataflow) -> int:
    """The vertex of the only query."""
    (vertex,) = flow.outputs.values()
    return vertex


def result_of(flow: Dataflow) -> int:
    """The vertex that gives the changes of the result: below the change log and what announces for it."""
    (below,) = flow.vertices[answer_of(flow)].inputs
    vertex = flow.vertices[below]
    return vertex.inputs[0] if isinstance(vertex.operator, Announcer) else below


def cut_at(flow: Dataflow, place: int) -> Dataflow:
    """The same with nothing above a vertex, which gives the answer then."""
    (name,) = flow.outputs
    return Dataflow(flow.vertices[: place + 1], {name: place})


def with_stored_view(flow: Dataflow, buffer: Expirations, *, may_be_negative: bool) -> Dataflow:
    """The same with a result that is stored and not told to anyone."""
    place = result_of(flow)
    cut = cut_at(flow, place)
    fields = flow.vertices[place].fields
    view = StoredView(fields, buffer, may_be_negative=may_be_negative)
    (name,) = flow.outputs
    return Dataflow([*cut.vertices, Vertex(view, (place,), fields)], {name: place + 1})


def with_result_buffer(flow: Dataflow, buffer: Expirations, *, may_be_negative: bool) -> Dataflow:
    """The same with another buffer for the result whose departures are announced."""
    (place,) = flow.vertices[answer_of(flow)].inputs
    vertex = flow.vertices[place]
    if not isinstance(vertex.operator, Announcer):
        raise InternalError("nothing announces the result")
    return _exchanged(flow, place, Announcer(vertex.fields, buffer, may_be_negative=may_be_negative))


def without_announcer(flow: Dataflow, below: type[Operator]) -> Dataflow:
    """The same without the announcer right above an operator of a kind: foreseen departures stay silent."""
    found = [
        i
        for i, vertex in enumerate(flow.vertices)
        if isinstance(vertex.operator, Announcer)
        and isinstance(flow.vertices[vertex.inputs[0]].operator, below)
    ]
    if not found:
        return flow
    (place,) = found
    new = [i if i < place else i - 1 for i in range(len(flow.vertices))]
    (new[place],) = flow.vertices[place].inputs
    vertices = [
        Vertex(v.operator, tuple(new[i] for i in v.inputs), v.fields, v.source)
        for i, v in enumerate(flow.vertices)
        if i != place
    ]
    return Dataflow(vertices, {name: new[i] for name, i in flow.outputs.items()})


def with_join(flow: Dataflow, *, is_hashed: bool, expire_every: int) -> Dataflow:
    """The same with another form of its window join, whose inputs are windows."""
    place = join_of(flow)
    (nodes,) = flow.places.values()
    (node,) = [node for node in nodes if isinstance(node, Join)]
    inputs = [
        JoinInput(flow.vertices[i].fields, Fifo(), is_ordered=True) for i in flow.vertices[place].inputs
    ]
    join = WindowJoin(inputs, node.equalities, node.residual, is_hashed=is_hashed, expire_every=expire_every)
    return _exchanged(flow, place, join)


def join_of(flow: Dataflow) -> int:
    """The vertex of the only window join."""
    (place,) = [i for i, vertex in enumerate(flow.vertices) if isinstance(vertex.operator, WindowJoin)]
    return place


def _exchanged(flow: Dataflow, place: int, operator: Operator) -> Dataflow:
    vertices = list(flow.vertices)
    old = vertices[place]
    vertices[place] = Vertex(operator, old.inputs, old.fields)
    return Dataflow(vertices, flow.outputs)
