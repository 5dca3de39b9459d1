"""Runtimes: what feeds the operators, on Spark or in this process."""
