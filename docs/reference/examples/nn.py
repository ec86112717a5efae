import torch

scores = torch.tensor([1.2, 0.8, -0.2])
steps = torch.tensor([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]])
# --- regard.nn.Softmax
from regard.nn import Softmax

Softmax()(scores)  # tensor([0.5217, 0.3497, 0.1286])
# --- regard.nn.Sparsemax
from regard.nn import Sparsemax

Sparsemax()(scores)  # tensor([0.7000, 0.3000, 0.0000])
# --- regard.nn.Entmax15
from regard.nn import Entmax15

Entmax15()(scores)  # tensor([0.6347, 0.3560, 0.0093])
# --- regard.nn.Entmax
from regard.nn import Entmax

normalizer = Entmax(1.5, learnable=True)
len(list(normalizer.parameters()))  # 1
# --- regard.nn.Fusedmax
from regard.nn import Fusedmax

Fusedmax(0.1)(torch.tensor([1.0, 2.1, 1.9]))  # tensor([0.0000, 0.5000, 0.5000])
# --- regard.nn.ConstrainedSoftmax
from regard.nn import ConstrainedSoftmax

ConstrainedSoftmax()(scores, torch.tensor([0.5, 1.0, 1.0]))  # tensor([0.5000, 0.3655, 0.1345])
# --- regard.nn.ConstrainedSparsemax
from regard.nn import ConstrainedSparsemax

ConstrainedSparsemax()(scores, torch.tensor([0.5, 1.0, 1.0]))  # tensor([0.5000, 0.5000, 0.0000])
# --- regard.nn.ConstrainedSoftmaxScan
from regard.nn import ConstrainedSoftmaxScan

ConstrainedSoftmaxScan()(steps, 1.0)[2]  # tensor([0.1173, 0.2094, 0.6732])
# --- regard.nn.ConstrainedSparsemaxScan
from regard.nn import ConstrainedSparsemaxScan

ConstrainedSparsemaxScan()(steps, 1.0)[1]  # tensor([0.3000, 0.7000, 0.0000])
# --- regard.nn.SparsemaxLoss
from regard.nn import SparsemaxLoss

SparsemaxLoss()(torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([0]))  # tensor(0.)
# --- regard.nn.Entmax15Loss
from regard.nn import Entmax15Loss

Entmax15Loss()(torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([0]))  # tensor(0.)
# --- regard.nn.EntmaxLoss
from regard.nn import EntmaxLoss

EntmaxLoss(alpha=1.5)(torch.tensor([[1.2, 0.8, -0.2]]), torch.tensor([0]))  # tensor(0.2193)
