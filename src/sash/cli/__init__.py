"""The command line: `sash run`, `check`, `explain`, `demo` and `experiment`."""
