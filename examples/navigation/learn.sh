#!/usr/bin/env bash
# Learns a network of this folder from transitions of the true system: learn.sh SIZE [FOLDER], SIZE 8 or 10.
# Writes data.npz, zone.npz, network.onnx and training.json; the shipped ones were made this way.
set -euo pipefail
size=${1:?which size: 8 or 10}
here=$(dirname "$0")
out=${2:-out/navigation_$size}
problem=$here/navigation_$size/problem.toml
reluplan collect "$here/domain.rddl" "instance_$size.rddl" --exploration latin --episodes 2000 --seed 1 \
    --out "$out/data.npz"
# The slow zone is a twentieth of the maze but decides the way: a third of the data is from there.
sed -e 's/^initial = .*/initial = 0/' -e "s/^bounds = \[-$((size / 2)), .*/bounds = [-1.5, 1.5]/" "$problem" > "$out/zone.toml"
reluplan collect "$here/domain.rddl" "instance_$size.rddl" --exploration latin --episodes 1000 --seed 2 \
    --problem "$out/zone.toml" --out "$out/zone.npz"
reluplan train "$out/data.npz" "$out/zone.npz" --problem "$problem" --hidden 32 32 --seed 1 \
    --out "$out/network.onnx" --report "$out/training.json"
