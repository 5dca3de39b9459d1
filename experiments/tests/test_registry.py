"""Experiments are found by name, and their claims say why."""

from __future__ import annotations

import json

import pytest

from sash.errors import UserError
from sash_experiments import registry
from sash_experiments.registry import Experiment, all_experiments, run_experiment
from sash_experiments.result import Claim, Result


def test_all_experiments_have_different_names_and_a_title():
    found = all_experiments()
    assert {"operators", "upa-query-1", "upa-query-4", "join-order", "join-algorithms"} <= set(found)
    assert all(experiment.title for experiment in found.values())


def test_an_unknown_experiment_is_the_users_error():
    with pytest.raises(UserError, match="upa-query-5"):
        run_experiment("upa-query-5")


def test_a_result_tells_in_json_and_in_text_why_a_claim_does_not_hold(tmp_path, monkeypatch):
    claim = Claim("fast", "it is fast", "2 ×", "1.1 ×", False, "the machine has [2] cores")
    result = Result("one", "One", "small", [{"a": 1}], [claim])
    drawn = []
    one = Experiment("one", "One", lambda scale, note: result, lambda given, path: drawn.append(path))
    monkeypatch.setattr(registry, "_EXPERIMENTS", (one,))
    run_experiment("one", out=tmp_path)
    assert json.loads((tmp_path / "one.json").read_text())["claims"][0]["because"] == claim.because
    assert drawn == [tmp_path / "one.png"]
    assert "fast does not hold here: the machine has [2] cores" in str(result)
