#!/usr/bin/env bash
# Learns a network of this folder from transitions of the true system: learn.sh SIZE [FOLDER], SIZE 3 or 4.
# Writes data.npz, network.onnx and training.json; the shipped ones were made this way.
set -euo pipefail
size=${1:?which size: 3 or 4}
here=$(dirname "$0")
out=${2:-out/reservoir_$size}
reluplan collect "$here/domain.rddl" "instance_$size.rddl" --exploration latin --episodes 2000 --seed 1 \
    --out "$out/data.npz"
reluplan train "$out/data.npz" --problem "$here/reservoir_$size/problem.toml" --hidden 32 --seed 1 \
    --out "$out/network.onnx" --report "$out/training.json"
