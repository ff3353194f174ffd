"""The whole story on three reservoirs, in under two minutes: data, network, potentials, plan, and the true system.

    python examples/reservoir/demo.py [FOLDER]        (FOLDER is out/demo by default)

Every step is a command that you can run yourself; the shipped network is not touched, the demo learns its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(os.path.relpath(Path(__file__).parent))
DOMAIN, INSTANCE = str(HERE / "domain.rddl"), "instance_3.rddl"
HORIZON = "20"


def say(title: str) -> None:
    """What comes next."""
    print(f"\n--- {title}", flush=True)


def run(*arguments: str | Path, keep: Path | None = None) -> None:
    """Show a command and run it; keep: a file for its JSON output."""
    words = ["reluplan", *map(str, arguments)]
    print(f"$ {' '.join(words)}", flush=True)
    command = [sys.executable, "-m", *words]
    if keep is None:
        subprocess.run(command, check=True)
    else:
        keep.write_bytes(subprocess.run([*command, "--json"], check=True, stdout=subprocess.PIPE).stdout)


def summarise(folder: Path) -> None:
    """What was learned, planned, proven and earned."""
    training = json.loads((folder / "network.json").read_text())
    potentials = json.loads((folder / "potentials.json").read_text())["report"]
    plan = json.loads((folder / "plan" / "result.json").read_text())
    check = json.loads((folder / "check.json").read_text())
    worst = max(state["rmse"] for state in training["states"])
    least = min(state["r2_change"] for state in training["states"])
    say("What came out")
    print("On data it has never seen, the network is off by")
    print(f"    {worst:.3f} in the worst predicted level (RMSE of one step; R² of the change at least {least:.6f}).")
    print(f"Reward potentials of its {potentials['units']} ReLUs took {potentials['seconds']:.0f} s, proof included.")
    print(f"Over {plan['horizon']} steps its best plan earns")
    print(f"    {plan['reward']:.4f} in the network ({plan['status']}), and no plan can earn more than")
    print(f"    {plan['bound']:.4f}, which is proven. In the true system it earns")
    print(f"    {check['simulation']['true_reward']:.4f}.")
    print(f"Files: {folder}. To plan anew at every step: docs/control.md; your own data: README.md.")


def main() -> None:
    """Collect, train, potentials, plan, check."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out/demo")
    folder.mkdir(parents=True, exist_ok=True)
    problem = folder / "problem.toml"
    shutil.copy(HERE / "reservoir_3" / "problem.toml", problem)
    say("1. Data: try all kinds of releases in the simulator, from levels all over their range")
    run("collect", DOMAIN, INSTANCE, "--exploration", "latin", "--episodes", "300", "--seed", "1",
        "--out", folder / "data.csv")  # fmt: skip
    say("2. Learn a network that predicts the next levels, as small as it can be")
    run("train", folder / "data.csv", "--problem", problem, "--epochs", "100", "--time-limit", "40")
    say("3. Reward potentials: what the network's ReLUs can earn in a step (`plan --method potentials` uses them)")
    run("potentials", problem, "--horizon", HORIZON, "--intervals", "2", "--time-limit", "15",
        "--out", folder / "potentials.json")  # fmt: skip
    say("4. Plan: the best releases by the default method, and a proof that no others are better")
    run("plan", problem, "--horizon", HORIZON, "--time-limit", "40", "--out", folder / "plan")
    say("5. Check: the same releases in the true system")
    run("check", problem, folder / "plan", "--simulator", DOMAIN, "--instance", INSTANCE, keep=folder / "check.json")
    summarise(folder)


if __name__ == "__main__":
    main()
