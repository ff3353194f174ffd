"""Setting the weights that matter least to zero, for good."""

from __future__ import annotations

import torch
from torch import Tensor

from reluplan.learning.dense_net import DenseNet


@torch.no_grad()
def prune_share(net: DenseNet, inputs: Tensor, share: float) -> None:
    """Mask the given share of all weights, those with the smallest contributions, in whatever layer they are."""
    contributions = torch.cat([part.flatten() for part in _contributions(net, inputs)])
    allowed = torch.cat([mask.flatten() for mask in net.masks]) > 0.0
    count = round(share * int(allowed.sum()))
    if count:
        threshold = torch.kthvalue(contributions[allowed], count).values
        _mask_up_to(net, inputs, float(threshold))


@torch.no_grad()
def prune_negligible(net: DenseNet, inputs: Tensor, negligible: float) -> None:
    """Mask the weights that training with L1 drove to zero, almost: those with contributions up to `negligible`."""
    _mask_up_to(net, inputs, negligible)


def _mask_up_to(net: DenseNet, inputs: Tensor, threshold: float) -> None:
    for mask, contribution in zip(net.masks, _contributions(net, inputs), strict=True):
        mask.mul_(contribution > threshold)
    net.apply_masks()


def _contributions(net: DenseNet, inputs: Tensor) -> list[Tensor]:
    """|w_ij| σ(z_j) / norm over j: what each weight adds to its unit; scaling a unit up or down changes nothing."""
    deviation = net.features(inputs).std(dim=0)
    sizes = [weights.abs() * deviation[: weights.shape[1]] for weights in net.weights]
    return [size / size.norm(dim=1, keepdim=True).clamp_min(1e-300) for size in sizes]
