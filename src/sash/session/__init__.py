"""The Python side of Sash: `connect` gives a session, whose queries are iterated."""

from sash.session.answers import Answer
from sash.session.handle import Query
from sash.session.session import Session, connect

__all__ = ["Answer", "Query", "Session", "connect"]
