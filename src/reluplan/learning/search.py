"""The smallest and sparsest network that is as good as the best, on validation data.

Linear dynamics come first: where their error is negligible, nothing else is tried. Otherwise the full network is
trained, and units are taken out of it, some at a time, with a few steps of training after each time; the trained
weights of the larger network are the start of the smaller one, which costs far less than to train it from the
beginning and ends no worse. Then weights go, in the same way. Of all networks that were tried, the one with the fewest
undecided ReLUs, then the fewest units, then the fewest weights is taken among those that `Judge` calls as good as the
best.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from reluplan.learning.compact import compact
from reluplan.learning.course import Course
from reluplan.learning.dense_net import DenseNet
from reluplan.learning.eliminate import eliminate, group_size
from reluplan.learning.judge import Judge, Scores
from reluplan.learning.planning_cost import unstable_in_box
from reluplan.learning.polish import polish
from reluplan.learning.prune import prune_share
from reluplan.learning.scaling import fold
from reluplan.learning.settings import TrainingSettings
from reluplan.learning.trials import Kind, SearchReport, Trial
from reluplan.network.relu_network import ReluNetwork

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A network that was tried: as it is trained, of raw values, its errors, and its entry of the learning curve."""

    trial: Trial
    net: DenseNet
    network: ReluNetwork
    scores: Scores
    entry: int


class Search:
    """Collects candidates while the course of the training goes on; whatever ends it, the best choice is there."""

    def __init__(
        self, course: Course, judge: Judge, box: tuple[Array, Array], settings: TrainingSettings,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.candidates: list[Candidate] = []
        self._course = course
        self._judge = judge
        self._box = box
        self._settings = settings
        self._rng = rng

    def is_linear(self) -> bool:
        """Try linear dynamics; True if nothing better is needed."""
        course = self._course
        full = course.net
        self._begin(self._linear())
        course.record("linear", 0, course.training_loss())
        candidate = self.add("linear")
        if self._judge.is_negligible(candidate.scores):
            self._fewer_weights()
            return True
        self._begin(full)
        course.record("start", 0, course.training_loss())
        return False

    @property
    def is_complete(self) -> bool:
        """Whether the network that is trained first of all, or one that needs no such training, is a candidate."""
        return any(one.trial.kind == "full" or self._judge.is_negligible(one.scores) for one in self.candidates)

    def shrink(self) -> None:
        """From the full network, which is trained, to one that is as good and easier to plan with."""
        self.add("full")
        if self.choice.trial.relus:
            self._fewer_units()
            self._improve("polished", self._settings.polish, self.choice.net.copy())
            self._one_unit_fewer()
        self._fewer_weights()

    @property
    def choice(self) -> Candidate:
        """The easiest to plan with of those that are as good as the best."""
        good = [one for one in self.candidates if self._is_good(one)]
        return min(good, key=lambda one: (*one.trial.cost, one.scores.error))

    @property
    def report(self) -> SearchReport:
        """All trials, judged by the best of them."""
        trials = tuple(dataclasses.replace(one.trial, as_good=self._is_good(one)) for one in self.candidates)
        return SearchReport(trials, self.candidates.index(self.choice))

    @property
    def _best(self) -> Candidate:
        return min(self.candidates, key=lambda one: one.scores.error)

    def _is_good(self, candidate: Candidate) -> bool:
        best = self._best
        return candidate is best or self._judge.as_good(candidate.scores, best.scores)

    def _fewer_units(self) -> None:
        """Take units out until there are none, or the error is hopeless."""
        searching = self._settings.searching
        last = self.candidates[-1]
        while (units := sum(len(bias) for bias in last.net.biases[:-1])) > 1:
            count = group_size(units, searching.removed)
            last = self._improve("fewer units", searching.iterations, self._eliminated(last.net, count))
            if last.scores.error > searching.hopeless * max(self._best.scores.error, searching.negligible):
                return

    def _one_unit_fewer(self) -> None:
        """Take single units out of the choice, with more training than before, for as long as that works."""
        chosen = self.choice
        while chosen.trial.relus > 1:
            found = self._improve("fewer units", self._settings.searching.thorough, self._eliminated(chosen.net, 1))
            if self.choice is not found:
                return
            chosen = found

    def _fewer_weights(self) -> None:
        """Take weights out of the choice, fewer at a time after each failure."""
        searching = self._settings.searching
        share = searching.pruned
        failures = 0
        while failures < searching.attempts:
            chosen = self.choice
            found = self._improve("fewer weights", searching.iterations, self._pruned(chosen.net, share))
            if found.trial.nonzero_weights == chosen.trial.nonzero_weights:
                return
            if self.choice is not found:
                failures += 1
                share /= 2.0

    def _linear(self) -> DenseNet:
        """Least squares, without any unit."""
        course = self._course
        own = np.random.default_rng(0)  # the full network's random numbers are those that it has without a search
        net = DenseNet.random(course.inputs.shape[1], (), course.targets.shape[1], dense=True, rng=own)
        net.ignore_inputs(torch.from_numpy(self._judge.data.input_scaling.constant))
        net.refit_output(course.inputs, course.targets)
        return net

    def _eliminated(self, net: DenseNet, count: int) -> DenseNet:
        course = self._course
        negligible = self._settings.searching.negligible
        return eliminate(net.copy(), course.inputs, course.targets, count, negligible, self._rng)

    def _pruned(self, net: DenseNet, share: float) -> DenseNet:
        smaller = net.copy()
        prune_share(smaller, self._course.inputs, share)
        smaller.refit_output(self._course.inputs, self._course.targets)
        return smaller

    def _improve(self, kind: Kind, iterations: int, net: DenseNet) -> Candidate:
        """Polish a network and add it to the candidates."""
        self._course.check_time()
        self._begin(net)
        self._course.record("search", 0, self._course.training_loss())
        polish(self._course, dataclasses.replace(self._settings, polish=iterations), self._rng, "search")
        return self.add(kind)

    def _begin(self, net: DenseNet) -> None:
        self._course.net = net
        self._course.forget_best()

    def add(self, kind: Kind) -> Candidate:
        """The present network of the course as a candidate."""
        course = self._course
        data = self._judge.data
        network = compact(fold(course.net.to_network(), data.input_scaling, data.target_scaling))
        scores = self._judge.scores(network)
        layers = (*network.hidden, network.output)
        trial = Trial(
            kind,
            network.relu_count,
            unstable_in_box(network, *self._box),
            sum(int(np.count_nonzero(layer.weights)) for layer in layers),
            scores.error,
            float(scores.rollouts.mean()) if len(scores.rollouts) else None,
            as_good=False,  # known at the end
            seconds=course.curve[-1].seconds,
        )
        candidate = Candidate(trial, course.net, network, scores, course.best_entry)
        self.candidates.append(candidate)
        return candidate
