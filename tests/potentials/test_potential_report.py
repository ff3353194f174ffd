"""The report of potentials: typed in Python, the same bytes in a file, and settings that come back from it."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from potential_cases import domain_of, jumping_problem, small_problem
from reluplan.bounds.reachability import forward_bounds
from reluplan.errors import InputError
from reluplan.potentials.compute import compute_potentials
from reluplan.potentials.generation import Round
from reluplan.potentials.potential_search import PotentialSearch
from reluplan.potentials.potential_set import PotentialSet
from reluplan.potentials.report import PotentialReport
from reluplan.potentials.reprove import reprove
from reluplan.potentials.rollouts import greedy_rollouts
from reluplan.potentials.settings import (
    AnnealingSettings,
    FamilySettings,
    PotentialSettings,
    RolloutSettings,
    SamplingSettings,
    SeparationSettings,
)
from reluplan.potentials.step_samples import StepSamples
from shared_data import ROOT

FORMAT_2 = [
    "settings", "units", "sets", "converged", "interrupted", "iterations", "cuts", "patterns", "milps", "seconds",
    "proof_bound", "objective", "history", "notes",
]  # fmt: skip
FORMAT_2_SETTINGS = [
    "interval_count", "objective", "family", "regulariser", "tolerance", "heuristics", "enumerate_up_to", "every_unit",
    "cuts_per_round", "samples", "threads", "seed", "max_rounds",
]  # fmt: skip
CHANGED = PotentialSettings(
    2, samples=200, setup_share=0.2, reward_scale=3.0,
    sampling=SamplingSettings(climbs=2, spreads=(0.1,)), rollouts=RolloutSettings(chains=3),
    separation=SeparationSettings(walks=3, annealing=AnnealingSettings(population=50, generations=10)),
)  # fmt: skip


def potentials_with(settings: PotentialSettings) -> PotentialSet:
    problem = small_problem(7)
    return compute_potentials(problem, forward_bounds(problem), settings)


@pytest.fixture(scope="module")
def found() -> PotentialSet:
    return potentials_with(PotentialSettings(2, samples=200))


def test_the_report_of_a_file_has_the_keys_of_format_2(found: PotentialSet) -> None:
    content = found.report.to_dict()
    assert list(content) == FORMAT_2
    assert list(content["settings"]) == FORMAT_2_SETTINGS
    assert list(content["history"][0]) == ["seconds", "violation", "dual_bound", "cuts", "source"]


@pytest.mark.parametrize("settings", [PotentialSettings.paper(1), CHANGED])
def test_a_file_that_is_read_and_written_again_is_the_same(settings: PotentialSettings, tmp_path: Path) -> None:
    found = potentials_with(settings)
    found.save(tmp_path / "first.json")
    again = PotentialSet.load(tmp_path / "first.json")
    again.save(tmp_path / "second.json")
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()
    assert again.report == found.report
    assert again.report.settings == settings


def test_a_set_made_by_hand_has_an_empty_report(found: PotentialSet, tmp_path: Path) -> None:
    bare = dataclasses.replace(found, report=PotentialReport())
    bare.save(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text())["report"] == {}
    assert PotentialSet.load(tmp_path / "p.json").report == PotentialReport()


@pytest.mark.parametrize(
    "wrong", [["settings"], {"settings": 1}, {"settings": {}, "cuts": "many"}, {"settings": {"seed": 0.5}}]
)
def test_a_report_of_another_kind_is_refused(found: PotentialSet, tmp_path: Path, wrong: object) -> None:
    found.save(tmp_path / "p.json")
    content = json.loads((tmp_path / "p.json").read_text())
    (tmp_path / "p.json").write_text(json.dumps({**content, "report": wrong}))
    with pytest.raises(InputError, match="not a potentials file"):
        PotentialSet.load(tmp_path / "p.json")


def test_what_another_version_adds_is_left_out() -> None:
    report = PotentialReport.from_dict({"settings": {"seed": 3, "mood": "fine"}, "cuts": 4, "weather": "good"})
    assert report == PotentialReport(settings=PotentialSettings(seed=3), cuts=4)


def test_history_is_a_table(found: PotentialSet) -> None:
    columns = found.report.history_columns()
    assert list(columns) == [entry.name for entry in dataclasses.fields(Round)]
    assert [len(column) for column in columns.values()] == [len(found.report.history)] * len(columns)
    assert columns["dual_bound"][-1] == found.report.history[-1].dual_bound
    assert found.report.history[-1].source == "MILP"


def test_one_line_says_how_it_went(found: PotentialSet) -> None:
    assert str(found.report) == found.summary()
    assert found.summary().startswith("potentials converged: ")
    assert "proof bound" not in PotentialReport().summary()


def test_proofs_of_a_file_are_counted(tmp_path: Path) -> None:
    problem = jumping_problem()
    bounds = forward_bounds(problem)
    given = dataclasses.replace(compute_potentials(problem, bounds, PotentialSettings(1, samples=50)))
    proven, _ = reprove(problem, bounds, given)
    assert proven.report == dataclasses.replace(given.report, proven_again=1)
    assert list(proven.report.to_dict()) == [*FORMAT_2, "proven_again"]


class TestSettings:
    """Every stage does what it is told to."""

    def test_rollouts(self) -> None:
        settings = RolloutSettings(chains=3, tries=5, spreads=(1.0,))
        rollouts = greedy_rollouts(
            jumping_problem(), np.full(1, -1.0), np.full(1, 1.0), 1, np.random.default_rng(0), settings=settings
        )
        assert rollouts.rewards.shape == (1, 3)

    def test_samples_stay_near_their_centres(self) -> None:
        domain = domain_of(small_problem(7))
        settings = SamplingSettings(spreads=(1e-9,))
        samples = StepSamples(domain, domain.features(1), np.random.default_rng(0), settings)
        samples.sample(100)
        known = len(samples)
        samples.climb(np.zeros(samples.features.shape), 1)
        assert known <= len(samples) <= 2 * known

    def test_the_scale_of_rewards_decides_the_regulariser(self) -> None:
        domain = domain_of(small_problem(7))
        base = PotentialSettings(1, samples=200)
        scales = (0.5, 1.0)
        chosen = [PotentialSearch(domain, dataclasses.replace(base, reward_scale=s)).regulariser for s in scales]
        assert chosen[0] == pytest.approx(2.0 * chosen[1])

    def test_families(self) -> None:
        families = FamilySettings(objectives=("mean",), separated_sets=2)
        assert len(potentials_with(PotentialSettings(1, family="several", samples=100, families=families)).items) == 1
        assert len(potentials_with(PotentialSettings(1, family="lp", samples=100, families=families)).items) == 2
        for empty in ({"objectives": ()}, {"separated_sets": 0}, {"lp_horizon": 0}):
            with pytest.raises(InputError, match="at least one"):
                dataclasses.replace(families, **empty)


@pytest.mark.parametrize("module", ["settings", "report", "compute"])
def test_the_examples_of_docstrings_run(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert doctest.testmod(importlib.import_module(f"reluplan.potentials.{module}")).failed == 0
