import torch

scores = torch.tensor([1.2, 0.8, -0.2])
steps = torch.tensor([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]])
# --- regard.functional.softmax
from regard.functional import softmax

softmax(scores)  # tensor([0.5217, 0.3497, 0.1286])
softmax(scores, mask=torch.tensor([True, True, False]))  # tensor([0.5987, 0.4013, 0.0000])
# --- regard.functional.sparsemax
from regard.functional import sparsemax

sparsemax(scores)  # tensor([0.7000, 0.3000, 0.0000])
# --- regard.functional.entmax15
from regard.functional import entmax15

entmax15(scores)  # tensor([0.6347, 0.3560, 0.0093])
# --- regard.functional.entmax
from regard.functional import entmax

entmax(scores, 3.0)  # tensor([0.9000, 0.1000, 0.0000])
# --- regard.functional.fusedmax
from regard.functional import fusedmax

fusedmax(torch.tensor([1.0, 2.1, 1.9]))  # tensor([0.0000, 0.5000, 0.5000])
# --- regard.functional.constrained_softmax
from regard.functional import constrained_softmax

constrained_softmax(scores, torch.tensor([0.5, 1.0, 1.0]))  # tensor([0.5000, 0.3655, 0.1345])
# --- regard.functional.constrained_sparsemax
from regard.functional import constrained_sparsemax

constrained_sparsemax(scores, torch.tensor([0.5, 1.0, 1.0]))  # tensor([0.5000, 0.5000, 0.0000])
# --- regard.functional.constrained_softmax_scan
from regard.functional import constrained_softmax_scan

constrained_softmax_scan(steps, 1.0)[2]  # tensor([0.1173, 0.2094, 0.6732])
# --- regard.functional.constrained_sparsemax_scan
from regard.functional import constrained_sparsemax_scan

constrained_sparsemax_scan(steps, 1.0)[1]  # tensor([0.3000, 0.7000, 0.0000])
# --- regard.functional.check_bounds
from regard.functional import check_bounds

check_bounds(torch.tensor([0.5, 0.5, 0.5]))  # None
# --- regard.functional.sparsemax_loss
from regard.functional import sparsemax_loss

sparsemax_loss(torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([0]))  # tensor(0.)
# --- regard.functional.entmax15_loss
from regard.functional import entmax15_loss

entmax15_loss(torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([0]))  # tensor(0.)
# --- regard.functional.linear_log_softmax
from regard.functional import linear_log_softmax

linear_log_softmax(
    torch.zeros(1, 2), torch.zeros(4, 2), torch.zeros(4)
)  # tensor([[-1.3863, -1.3863, -1.3863, -1.3863]])
# --- regard.functional.linear_log_likelihood
from regard.functional import linear_log_likelihood

hidden, weight, bias = torch.zeros(1, 2), torch.zeros(4, 2), torch.zeros(4)
linear_log_likelihood(hidden, weight, bias, torch.tensor([2]))[0]  # tensor([-1.3863])
# --- regard.functional.linear_exponentials
from regard.functional import linear_exponentials

linear_exponentials(torch.zeros(1, 2), torch.zeros(3, 2))  # (tensor([[1., 1., 1.]]), tensor([3.]))
# --- regard.functional.entmax_loss
from regard.functional import entmax_loss

entmax_loss(scores[None], torch.tensor([0]), alpha=1.5)  # tensor(0.2193)
