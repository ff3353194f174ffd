"""How a network is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from reluplan.errors import InputError

Predicts = Literal["next", "delta"]


@dataclass(frozen=True)
class FitSettings:
    """The stage of mini-batches.

    steps_per_epoch: the batch size is the power of two that gives about so many steps, from smallest_batch to
    largest_batch rows (powers of two). retraining_share, retraining_slowdown: after pruning or regularising, most of
    the work is done, so that share of the epochs is made, at a rate divided by the slowdown.
    """

    steps_per_epoch: int = 64
    smallest_batch: int = 32
    largest_batch: int = 512
    retraining_share: float = 0.5
    retraining_slowdown: float = 3.0


@dataclass(frozen=True)
class ExchangeSettings:
    """Moving idle units to where the error is largest.

    every, until: units are exchanged every few epochs in this share of them; the rest is for settling down.
    most: units exchanged at a time. candidates: new units to choose from. rows: rows that stand for all of them here.
    gain_over_cost: an exchange may cost more than it gains at once: it pays after some training.
    emphasis: outputs count by this power of their mean squared error, so that units go to those that lag behind.
    """

    every: int = 3
    until: float = 0.6
    most: int = 4
    candidates: int = 256
    rows: int = 8192
    gain_over_cost: float = 0.5
    emphasis: float = 2.0


@dataclass(frozen=True)
class PolishSettings:
    """The stage of L-BFGS.

    chunk: iterations between two looks at the validation loss. patience: looks without a better one before it ends.
    most_rows: with more rows, a sample of this size stands for them. history: updates that approximate the curvature.
    """

    chunk: int = 20
    patience: int = 3
    most_rows: int = 100_000
    history: int = 50


@dataclass(frozen=True)
class PruneSettings:
    """Weights for good at zero.

    negligible: a weight that contributes less than this share to its unit's input is zero after training with L1.
    """

    negligible: float = 1e-3


@dataclass(frozen=True)
class SearchSettings:
    """Looking for the smallest and sparsest network that is as good as the best.

    largest: hidden layers that the search begins with where none are given.
    A network is as good as the best if, for every output, its mean squared validation error exceeds the best one's by
    no more than `standard_errors` standard errors of their difference and by no more than the share `excess` of the
    best error; or by no more than `negligible`, in units of the variance of the change. Runs of `run` consecutive rows
    are taken to be independent, rows are not. horizon: the same is asked of rollouts of that length, where held-out
    episodes are as long.
    removed: share of the units that is taken out at a time; pruned: share of the weights. iterations: of L-BFGS after
    each time; thorough: when a unit more is taken out of the choice, one at a time. hopeless: units are taken out until
    the error is so many times the best, since it may fall again. attempts: failures to prune, each with half of the
    share before, that end the pruning.
    """

    largest: tuple[int, ...] = (32,)
    standard_errors: float = 1.0
    excess: float = 0.1
    negligible: float = 1e-6
    run: int = 10
    horizon: int = 10
    removed: float = 0.125
    pruned: float = 0.25
    iterations: int = 60
    thorough: int = 200
    hopeless: float = 3.0
    attempts: int = 3


@dataclass(frozen=True)
class SplitSettings:
    """Which transitions are held out.

    fewest_rows: with fewer transitions, held-out ones say nothing. fewest_episodes: fewer episodes are cut into runs of
    consecutive steps, since whole ones would leave too little to learn from; blocks: the number of such runs. Single
    rows would not do: neighbouring steps resemble each other.
    """

    fewest_rows: int = 30
    fewest_episodes: int = 5
    blocks: int = 20


@dataclass(frozen=True)
class DiagnosisSettings:
    """When a fit is poor, and what then counts as evidence for which trouble.

    poor: R² of the change below which there is a warning; most_states: of so many states, the worst ones.
    outlier_score: robust deviations from which a change and its error lie far out; most_outliers: share of the rows
    that they may be; very_few: share up to which the error alone is enough; outlier_share: of the squared error that
    they must hold.
    telling: share of the error that an unread column must explain. better: a small network with less than this share of
    the squared error shows that it is the network. steep: how many times larger the squared error must be with half of
    the data; few_rows: with fewer, nothing but more data is asked for. irreducible: share of the error that must be
    irreducible to be called noise; memory: correlation of errors of consecutive steps that speaks for a hidden state
    (negative: for sensor noise). neighbours: nearest rows that are compared, of most_rows; nearness: how near the
    nearest must be, squared and relative to the mean between rows; credible: share of half the squared difference of
    nearest rows that noise must be, if it is a noticeable share of the variance. hidden, epochs, polish: of the
    networks that learn from half of the data.
    """

    poor: float = 0.95
    most_states: int = 3
    outlier_score: float = 8.0
    most_outliers: float = 0.1
    very_few: float = 0.005
    outlier_share: float = 0.5
    telling: float = 0.2
    better: float = 0.5
    steep: float = 1.3
    few_rows: int = 300
    irreducible: float = 0.5
    memory: float = 0.3
    neighbours: int = 10
    most_rows: int = 10_000
    nearness: float = 0.1
    credible: float = 0.85
    noticeable: float = 0.02
    hidden: tuple[int, ...] = (16,)
    epochs: int = 60
    polish: int = 60


@dataclass(frozen=True)
class RolloutSettings:
    """How the network is judged when it is fed its own predictions. horizons: steps after which errors are told."""

    horizons: tuple[int, ...] = (10, 50, 100)


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that training depends on beside the data; equal settings and data give equal networks.

    hidden: units of each hidden layer; None searches for the smallest and sparsest network that is as good as a large
    one. search: True searches below the given layers, False takes them as they are; None searches unless layers, or
    other means to an easier network (prune, sparsity, stability), are given.
    dense: every layer reads the inputs and all earlier layers, not the last alone.
    predicts: the network's output is s' ("next") or s' − s ("delta").
    epochs: passes over the data with AdamW, its rate falling to zero as a cosine; patience: passes without a better
    validation loss before that ends early; batch_size: chosen from the data if None. polish: iterations of L-BFGS
    after that. exchange: with one hidden layer, idle units are moved to where the error is largest.
    prune: share of the weights that is set to zero. sparsity: weight of the L1 norm. stability: weight of the share
    of ReLUs that may switch within the box of the inputs.
    threads: the same number gives the same network; more than one pays for wide networks only.
    fitting, exchanging, polishing, pruning, searching, splitting, rollouts, diagnosing: what rarely needs a change.
    """

    hidden: tuple[int, ...] | None = None
    search: bool | None = None
    dense: bool = True
    predicts: Predicts = "next"
    epochs: int = 200
    patience: int = 60
    batch_size: int | None = None
    learning_rate: float = 1e-2
    weight_decay: float = 0.0
    polish: int = 400
    exchange: bool = True
    prune: float = 0.0
    sparsity: float = 0.0
    stability: float = 0.0
    validation_share: float = 0.1
    test_share: float = 0.1
    seed: int = 0
    threads: int = 1
    fitting: FitSettings = FitSettings()
    exchanging: ExchangeSettings = ExchangeSettings()
    polishing: PolishSettings = PolishSettings()
    pruning: PruneSettings = PruneSettings()
    searching: SearchSettings = SearchSettings()
    splitting: SplitSettings = SplitSettings()
    rollouts: RolloutSettings = RolloutSettings()
    diagnosing: DiagnosisSettings = DiagnosisSettings()

    @property
    def layers(self) -> tuple[int, ...]:
        """The hidden layers that training begins with."""
        return self.searching.largest if self.hidden is None else self.hidden

    @property
    def searches(self) -> bool:
        """Whether smaller and sparser networks are tried."""
        if self.search is not None:
            return self.search
        return self.hidden is None and not (self.prune or self.sparsity or self.stability)

    def __post_init__(self) -> None:
        for ok, name, rule in self._rules():
            if not ok:
                raise InputError(f"{name} = {getattr(self, name)}: must be {rule}")

    def _rules(self) -> list[tuple[bool, str, str]]:
        positive = [(getattr(self, name) >= 1, name, "at least 1") for name in ("epochs", "patience", "threads")]
        nonnegative = [
            (_is_nonnegative(getattr(self, name)), name, "a number of at least 0")
            for name in ("weight_decay", "sparsity", "stability", "polish", "seed")
        ]
        shares = [
            (0.0 < getattr(self, name) < 0.5, name, "a share between 0 and 0.5")
            for name in ("validation_share", "test_share")
        ]
        return [
            *positive,
            *nonnegative,
            *shares,
            (min(self.layers, default=0) >= 1, "hidden", "one or more numbers of at least 1"),
            (self.predicts in get_args(Predicts), "predicts", '"next" or "delta"'),
            (self.batch_size is None or self.batch_size >= 1, "batch_size", "at least 1"),
            (0.0 < self.learning_rate < math.inf, "learning_rate", "a number above 0"),
            (0.0 <= self.prune < 1.0, "prune", "a share of at least 0 and below 1"),
        ]


def _is_nonnegative(value: float) -> bool:
    return 0.0 <= value < math.inf
