"""The arguments and options of all commands: how they are spelt and what `--help` says about them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Of several commands

ProblemArgument = Annotated[Path, typer.Argument(help="Problem file (TOML).", show_default=False)]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
HorizonOption = Annotated[int | None, typer.Option(help="Number of steps; the problem file's by default.")]
TimeLimitOption = Annotated[float, typer.Option(help="Seconds for the whole command.")]
SolverOption = Annotated[str, typer.Option(help="highs, scip, gurobi or cplex.")]
GapOption = Annotated[float, typer.Option(help="Proven when bound - reward <= gap * max(1, |reward|).")]
ThreadsOption = Annotated[int | None, typer.Option(help="Solver threads; all cores by default.")]
EpisodesOption = Annotated[int, typer.Option(help="Number of episodes.")]

PROGRAMS_RUN = "A Python file and a gym environment are programs: they run with your rights."

# plan

RunFolderOption = Annotated[
    Path, typer.Option(help="Run directory for result.json, plan.csv and log.txt.", show_default=False)
]
MethodOption = Annotated[str, typer.Option(help="auto, base (the paper's model) or potentials.")]
StagesOption = Annotated[
    str | None,
    typer.Option(help="Run these stages in place of the method's own, as in search,lagrangian.", show_default=False),
]


def _list_stages(wanted: bool) -> None:
    if wanted:
        from reluplan.planning.settings import PlanSettings
        from reluplan.planning.stages import get_stage, stage_names

        for name in stage_names():
            print(f"{name:<14} {get_stage(name, PlanSettings()).summary}")
        raise typer.Exit


ListStagesOption = Annotated[
    bool, typer.Option("--list-stages", help="Name the stages and leave.", callback=_list_stages, is_eager=True)
]
PlanIntervalsOption = Annotated[int, typer.Option(help="Output intervals of each ReLU, for --method potentials.")]
PotentialsFileOption = Annotated[
    Path | None, typer.Option(help="Potentials file to use with --method potentials.", show_default=False)
]
TrustPotentialsOption = Annotated[
    bool, typer.Option("--trust-potentials", help="Do not prove the potentials of the file again.")
]
DeterministicOption = Annotated[
    bool,
    typer.Option("--deterministic", help="Limits in work, not seconds, on one thread: the same result everywhere."),
]
InitialOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="First value of a state, in place of the file's.", show_default=False),
]
StartPlanOption = Annotated[
    Path | None, typer.Option(help="Plan to begin from: plan.csv or a run directory.", show_default=False)
]
SolverSeedOption = Annotated[int, typer.Option(help="Random seed of the solver.")]
BaselineBigMOption = Annotated[
    float | None, typer.Option(help="One big-M for all ReLUs, to reproduce the published baseline; slow and leaky.")
]

# check

PlanArgument = Annotated[Path, typer.Argument(metavar="PLAN", help="plan.csv or a run directory.", show_default=False)]
CheckSimulatorOption = Annotated[
    str | None,
    typer.Option(
        help=f"Also run it in the true system: domain.rddl, gym:EnvId, file.py:function. {PROGRAMS_RUN}",
        show_default=False,
    ),
]
CheckInstanceOption = Annotated[
    str | None, typer.Option(help="Instance of the simulator's domain.", show_default=False)
]
SimulatorSeedOption = Annotated[int, typer.Option(help="Random seed of the simulator.")]
RepeatOption = Annotated[
    int | None, typer.Option(help="Runs of a stochastic simulator, each with the next seed; 1 by default.")
]
DriftPlotOption = Annotated[Path | None, typer.Option(help="Plot network against true system (.png, .svg, .pdf).")]

# collect

DomainArgument = Annotated[
    str,
    typer.Argument(
        help=f"domain.rddl, a name of rddlrepository, gym:EnvId, or file.py:function. {PROGRAMS_RUN}",
        show_default=False,
    ),
]
DataFileOption = Annotated[
    Path, typer.Option(help="data.parquet, .csv or .npz; the ending decides.", show_default=False)
]
InstanceArgument = Annotated[
    str | None, typer.Argument(help="Instance of the domain: file, number or name.", show_default=False)
]
CollectStepsOption = Annotated[
    int | None, typer.Option(help="Steps of an episode; the simulator's horizon by default, 10 for latin.")
]
DataSeedOption = Annotated[int, typer.Option(help="Random seed; the same seed gives the same data.")]
ExplorationOption = Annotated[
    str, typer.Option(help="uniform or smooth actions, or latin: uniform from first states spread over the bounds.")
]
LimitingProblemOption = Annotated[
    Path | None, typer.Option(help="Problem file whose bounds and constraints the data keep to.")
]
ProcessesOption = Annotated[int | None, typer.Option(help="Processes; as many as are worth it by default.")]

# control

ControlSimulatorOption = Annotated[
    str,
    typer.Option(
        help=f"The true system: domain.rddl, gym:EnvId or file.py:function. {PROGRAMS_RUN}",
        show_default=False,
    ),
]
ControlInstanceOption = Annotated[str | None, typer.Option(help="RDDL instance file.", show_default=False)]
LookaheadOption = Annotated[int | None, typer.Option(help="Steps to plan ahead; all remaining by default.")]
StepSecondsOption = Annotated[float, typer.Option(help="Seconds for the plan of each step.")]
FirstStepSecondsOption = Annotated[
    float | None, typer.Option(help="Seconds for the first plan of an episode; as for every step by default.")
]
ControlStepsOption = Annotated[
    int | None, typer.Option(help="Steps of an episode; the simulator's horizon by default.")
]
RandomStartsOption = Annotated[
    bool, typer.Option("--random-starts", help="Begin each episode anywhere within the problem's state bounds.")
]
ControlMethodOption = Annotated[str, typer.Option(help="auto, base or potentials, as in plan.")]
ControlSeedOption = Annotated[int, typer.Option(help="Random seed of the simulator, the starts and the solver.")]
StepsFileOption = Annotated[Path | None, typer.Option(help="File with every step (.json or .csv).", show_default=False)]

# potentials

PotentialsOutOption = Annotated[Path, typer.Option(help="File for the potentials (JSON).", show_default=False)]
IntervalsOption = Annotated[int, typer.Option(help="Output intervals of each ReLU; 1 is on or off.")]
SettingOption = Annotated[str, typer.Option(help="fast, or paper: one MILP and one cut a round, all units.")]
PerStepOption = Annotated[bool, typer.Option("--per-step", help="Potentials of its own for each step's box.")]
RegulariserOption = Annotated[float | None, typer.Option(help="Lambda of the master problem; chosen by default.")]
SamplingSeedOption = Annotated[int, typer.Option(help="Random seed of the sampling.")]
ConvergencePlotOption = Annotated[Path | None, typer.Option(help="Also plot the convergence (.png, .svg, .pdf).")]

# train

DataArgument = Annotated[
    list[Path],
    typer.Argument(metavar="DATA...", help="Transitions: CSV, Parquet or NPZ files.", show_default=False),
]
DraftStatesOption = Annotated[
    str, typer.Option(metavar="NAMES", help="Columns that are states, such as temp,humidity.", show_default=False)
]
DraftActionsOption = Annotated[
    str, typer.Option(metavar="NAMES", help="Columns that somebody decides, such as heat.", show_default=False)
]
DraftSeriesOption = Annotated[
    str, typer.Option(metavar="NAMES", help="Columns that are known ahead, such as weather.", show_default=False)
]
DraftFileOption = Annotated[Path, typer.Option(help="Problem file to write; it must not exist yet.")]
DraftHorizonOption = Annotated[int, typer.Option(help="Number of steps to plan.")]
LearnedProblemOption = Annotated[
    Path, typer.Option(help="Problem file (TOML); its network need not exist yet.", show_default=False)
]
NetworkFileOption = Annotated[
    Path | None, typer.Option(help="network.onnx; by default the file that the problem names.", show_default=False)
]
HiddenOption = Annotated[
    list[int] | None,
    typer.Option(
        metavar="N [N...]",
        help="Units of each hidden layer: exactly these, unless --search; by default as few as are as good as 32.",
        show_default=False,
    ),
]
SearchOption = Annotated[
    bool | None,
    typer.Option(
        "--search/--no-search",
        help="Look for the smallest and sparsest network that is as good; by default if no sizes are given.",
        show_default=False,
    ),
]
AccuracyOption = Annotated[
    float | None,
    typer.Option(help="R² of the change that needs no more units; 0.999999 by default.", show_default=False),
]
DropIfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--drop-if", metavar="CONDITION", show_default=False,
        help="Leave out rows for which it holds, such as \"abs(x' - x) > 5 or crashed == 1\"; repeatable.",
    ),
]  # fmt: skip
SequentialOption = Annotated[
    bool, typer.Option("--sequential", help="Layers read the previous layer only, not the inputs and all before.")
]
PredictsOption = Annotated[
    str | None, typer.Option(help="next state or delta (its change); the problem file's by default.")
]
EpochsOption = Annotated[int | None, typer.Option(help="Passes over the data.")]
PatienceOption = Annotated[int | None, typer.Option(help="Passes without progress before it ends.")]
BatchSizeOption = Annotated[int | None, typer.Option(help="Rows per step; chosen by default.")]
LearningRateOption = Annotated[float | None, typer.Option(help="First rate of AdamW.")]
WeightDecayOption = Annotated[float | None, typer.Option(help="Weight decay of AdamW.")]
PolishOption = Annotated[int | None, typer.Option(help="Iterations of L-BFGS at the end.")]
PruneOption = Annotated[float | None, typer.Option(help="Share of the weights to set to zero.")]
SparsityOption = Annotated[float | None, typer.Option(help="Weight of the L1 norm of the weights.")]
StabilityOption = Annotated[float | None, typer.Option(help="Weight of ReLUs that may switch in the box.")]
NetworkSeedOption = Annotated[int | None, typer.Option(help="Random seed; the same seed gives the same network.")]
TrainThreadsOption = Annotated[int | None, typer.Option(help="Threads; more rarely pay, and change the last digits.")]
ReportFileOption = Annotated[
    Path | None, typer.Option(help="Report (JSON); by default beside the network.", show_default=False)
]
TrainingPlotOption = Annotated[
    Path | None, typer.Option(help="Also plot learning curves and drift (.png, .svg, .pdf).", show_default=False)
]

# convert

PublishedFolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder with dnn/ and translation/.", show_default=False)
]
PublishedNameArgument = Annotated[str, typer.Argument(help="Instance, such as hvac_3.", show_default=False)]
ConvertedFolderOption = Annotated[
    Path, typer.Option(help="Folder for problem.toml and network.onnx.", show_default=False)
]
ActionBoundsOption = Annotated[
    tuple[float, float] | None, typer.Option(metavar="LO HI", help="Narrow the bounds of all actions.")
]
ExampleOption = Annotated[
    list[str] | None,
    typer.Option(help="Read this kind of file (goal, pvariables, transitions) from its example_ variant; repeatable."),
]

# export

ModelFileOption = Annotated[Path, typer.Option(help="model.mps or model.lp; the ending decides.", show_default=False)]
BigMOption = Annotated[float | None, typer.Option(help="One big-M for all ReLUs.")]

# inspect

InspectedArgument = Annotated[
    Path, typer.Argument(metavar="PROBLEM|NETWORK", help="Problem file (TOML) or network (.onnx).", show_default=False)
]
BoxOption = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="Bounds of all inputs of a network that stands alone."),
]
InspectSecondsOption = Annotated[
    float | None, typer.Option(help="Seconds for the whole command, 7 by default.", show_default=False)
]
NoTrialOption = Annotated[bool, typer.Option("--no-trial", help="Do not try the planner for a moment.")]

# distil

TeacherOption = Annotated[
    Path, typer.Option(help="Smooth network (.onnx), with the inputs and outputs of [network].", show_default=False)
]
DistilOutOption = Annotated[
    Path | None,
    typer.Option(help="network.onnx; by default the file that the problem names, or a new one.", show_default=False),
]
DistilDataOption = Annotated[
    list[Path] | None,
    typer.Option(help="Learn around the rows of these files, not over the bounds; repeatable.", show_default=False),
]
SamplesOption = Annotated[int | None, typer.Option(help="Points to learn from, 20000 by default.", show_default=False)]
