"""The program of `sash demo`: made-up network traffic and five standing queries over it.

The traffic is not clean, as no traffic is: a fifth of the rows is out of order within the slack, two in a
thousand are later than it and one in a thousand does not fit the schema. The run counts them and keeps them
aside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sash.errors import UserError

PROGRAM_NAME = "demo.cql"

_PROGRAM = """\
-- {seconds} seconds of network traffic, {rate:,} packets a second, not all in order and not all well-formed.
CREATE STREAM packets (ts TIMESTAMP, src STRING, dst STRING, proto STRING, port INT, length BIGINT)
  TIMESTAMP BY ts SLACK 2 SEC FROM 'generator:packets'
  WITH (rate = {rate}, rows = {rows}, pace = true, seed = 1, hosts = 500, skew = 1.2, bursts = 0.1,
        disorder = 1.5, disorder_share = 0.2, late_share = 0.002, bad_share = 0.001);

-- Who sends more than {heavy:,} bytes a minute?
CREATE QUERY heavy_senders INTO 'jsonl:heavy_senders.jsonl' AS
  Rstream(SELECT src, SUM(length) AS bytes, COUNT(*) AS packets
          FROM packets [RANGE 1 MIN SLIDE 5 SEC] GROUP BY src HAVING SUM(length) > {heavy});

-- What is spoken on the line?
CREATE QUERY protocols INTO 'jsonl:protocols.jsonl' AS
  Rstream(SELECT proto, COUNT(*) AS packets FROM packets [RANGE 10 SEC SLIDE 2 SEC] GROUP BY proto);

-- How long are the packets to each service?
CREATE QUERY lengths INTO 'jsonl:lengths.jsonl' AS
  Rstream(SELECT port, AVG(length) AS average, MAX(length) AS longest
          FROM packets [RANGE 30 SEC SLIDE 5 SEC] GROUP BY port);

-- Which hosts does everybody talk to?
CREATE QUERY big_hosts INTO 'jsonl:big_hosts.jsonl' AS
  Rstream(SELECT dst, COUNT(*) AS packets, SUM(length) AS bytes
          FROM packets [RANGE 20 SEC SLIDE 4 SEC] GROUP BY dst HAVING COUNT(*) > {big});

-- How much is it in all?
CREATE QUERY total INTO 'jsonl:total.jsonl' AS
  Rstream(SELECT COUNT(*) AS packets, SUM(length) AS bytes, AVG(length) AS average
          FROM packets [RANGE 30 SEC SLIDE 2 SEC]);
"""


def program(seconds: int, rate: int) -> str:
    # The bounds are about one per cent of the traffic, so that the answers are short at every rate.
    heavy, big = rate * 200, max(rate // 5, 1)
    return _PROGRAM.format(seconds=seconds, rate=rate, rows=seconds * rate, heavy=heavy, big=big)


@contextmanager
def folder(keep: Path | None) -> Iterator[Path]:
    """Where the demo writes: `keep`, which must be new or empty, or a folder that is gone afterwards."""
    if keep is None:
        with TemporaryDirectory(prefix="sash-demo-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UserError(f"'{keep}' is not an empty folder", id="file", hint="choose a new one for --keep")
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder '{keep}': {error.strerror}", id="file") from None
    yield keep


def by_hand(keep: Path | None, seconds: int, rate: int) -> tuple[str, ...]:
    """The commands that do the same, one line each."""
    name = str(keep) if keep is not None else "sash-demo"
    run = f"sash run {name}/{PROGRAM_NAME}"
    return (run,) if keep is not None else (f"sash demo --keep {name} --seconds {seconds} --rate {rate}", run)
