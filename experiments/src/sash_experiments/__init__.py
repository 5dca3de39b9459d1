"""Experiments: measurements that anyone can repeat, each with the claims it supports or refutes."""
