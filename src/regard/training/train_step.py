"""One training step: micro-batches, gradients of all processes, clipping and the optimizer step."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from regard.attention.base import Attention
from regard.errors import DeviceError
from regard.runs.device import release_unused_memory
from regard.training.checkpoint import TrainingState
from regard.training.config import TrainingConfig
from regard.training.evaluate import TrainingExamples, add_error_location
from regard.training.losses.base import LossTerm, join_rows, split_outcome
from regard.training.losses.objectives import OBJECTIVES, Loss, add_advantage
from regard.training.optimizer import LR_FACTOR_KEY, clip_gradients
from regard.training.run_context import ProcessGroup, StepStatistics, autocast

RELEASE_MEMORY_EVERY = 10  # steps


class TrainStep:
    """Runs training steps.

    Args:
        state: The model (on its device), the optimizer, the schedule and the counters; the counters are not
            modified.
        data: The training split.
        config: The options of training.
        processes: The processes of the run.
        seed: The random seed of the run.
        losses: The loss terms in addition to the model's own objective, in the order of their application.
    """

    def __init__(
        self,
        state: TrainingState,
        data: TrainingExamples,
        config: TrainingConfig,
        processes: ProcessGroup,
        seed: int,
        losses: Sequence[LossTerm] = (),
    ) -> None:
        """Wrap the model in `DistributedDataParallel` if there are several processes.

        Raises:
            ConfigError: if a loss term cannot train this model.
        """
        self.state, self.data, self.config, self.processes, self.seed = state, data, config, processes, seed
        self.losses = losses
        self.objective = OBJECTIVES[state.model.objective]
        for term in losses:
            term.check_model(state.model)
        self.output_attentions = "source" if any(term.output_attentions for term in losses) else "nothing"
        self.target_lengths = data.lengths[1]
        self.parameters = [value for value in state.model.parameters() if value.requires_grad]
        self.replica: nn.Module = state.model
        if processes.world_size > 1:
            mechanisms = [part for part in state.model.modules() if isinstance(part, Attention)]
            # Without this option, `DistributedDataParallel` fails if the loss does not use a parameter.
            find_unused = not all(part.trains_queries for part in mechanisms)
            self.replica = DistributedDataParallel(
                state.model, gradient_as_bucket_view=True, find_unused_parameters=find_unused
            )

    def __call__(
        self,
        batches: Sequence[np.ndarray],
        clock: Callable[[], float] = float,
        stop: Callable[[], bool] = bool,
    ) -> StepStatistics:
        """Run one training step.

        Args:
            batches: The rows of each micro-batch, of all processes together.
            clock: A function that returns the seconds since its last call.
            stop: A function that returns whether this process was asked to stop; it is called at the end of
                the step.

        Raises:
            DeviceError: if the GPU is out of memory.
            InfeasibleBoundsError: if the fertilities of a sentence are too small.
        """
        processes, step = self.processes, self.state.progress.step + 1
        tokens = int(sum(self.target_lengths[rows].sum() for rows in batches))
        per_token = self.config.optimizer.loss_normalization == "tokens"
        losses = self._accumulate(batches, tokens if per_token else sum(len(rows) for rows in batches))
        # The processes have exchanged the gradients, so each one computes the same norm. The norm of the
        # norms is that of all gradients, without a copy of them in one vector.
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norms = torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients])
        # All numbers are copied from the device at once, because each copy waits for the GPU.
        numbers = torch.stack(
            [*(x.total for x in losses), *(x.nll for x in losses), torch.linalg.vector_norm(norms)]
        )
        *sums, norm = numbers.double().tolist()
        total, nll = sum(sums[: len(losses)]), sum(sums[len(losses) :])
        own_seconds = clock() if processes.is_main else 0.0
        # One exchange also carries the requests to stop, so that all processes stop after the same step.
        total, nll, seconds, stops = processes.sum([total, nll, own_seconds, float(stop())])
        learning_rate = self.config.optimizer.learning_rate * self.state.schedule.factor(step)
        # Both numbers are equal in all processes, so that all of them apply or all of them skip the step.
        applied = math.isfinite(total) and math.isfinite(norm)
        if applied:
            clip_gradients(self.parameters, self.config.optimizer.max_grad_norm, norm)
            for group in self.state.optimizer.param_groups:
                group["lr"] = learning_rate * group.get(LR_FACTOR_KEY, 1.0)
            self.state.optimizer.step()
        # Gradients are freed before the next forward pass, so that they and its activations never use memory
        # at the same time.
        self.state.optimizer.zero_grad(set_to_none=True)
        if processes.device.type == "cpu" and step % RELEASE_MEMORY_EVERY == 0:
            release_unused_memory()
        return StepStatistics(step, total, nll, norm, tokens, seconds, stops > 0, learning_rate, applied)

    def _accumulate(self, batches: Sequence[np.ndarray], num_units: int) -> list[Loss]:
        """Accumulate the gradients of all micro-batches, and return the losses of this process.

        The loss of the step is divided by `num_units`, a number of tokens or of sentences.
        """
        processes, step = self.processes, self.state.progress.step + 1
        # `DistributedDataParallel` averages the gradients of the processes; the loss needs their sum.
        scale = processes.world_size / max(1, num_units)
        losses: list[Loss] = []
        for micro, rows in enumerate(batches):
            try:
                losses.append(self._backward(rows, micro, scale, last=micro + 1 == len(batches)))
            except torch.cuda.OutOfMemoryError:
                raise DeviceError(
                    f"{processes.device} is out of memory in step {step}: lower training.batch_size, "
                    "and raise training.gradient_accumulation to keep the amount of text per step"
                ) from None
        return losses

    def _backward(self, rows: np.ndarray, micro: int, scale: float, last: bool) -> Loss:
        """Accumulate the gradients of one micro-batch; return the loss of this process."""
        processes, config, model = self.processes, self.config, self.state.model
        share = rows[processes.rank :: processes.world_size]
        # Every process must take part in the gradient exchange. A process without sentences computes the loss
        # of another process's sentence with the weight 0.
        weight = 1.0 if len(share) else 0.0
        batch = self.data.batch(share if len(share) else rows[:1])
        # With a new seed for each micro-batch, the random numbers of dropout and sampling are a function of
        # the progress of the run. A resumed run uses the same ones, although no generator state is saved.
        sequence = np.random.SeedSequence([self.seed, self.state.progress.step + 1, micro, processes.rank])
        seed = int(sequence.generate_state(1, np.uint64)[0])
        if processes.device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:
            # On a CPU, this would also store tracebacks for other devices, for up to half a millisecond.
            torch.manual_seed(seed)
        # Processes exchange gradients only in the last backward pass of a step. `no_sync` has no effect on
        # the exchange unless it encloses the forward pass as well.
        replica, sync = self.replica, nullcontext()
        if isinstance(replica, DistributedDataParallel) and not last:
            sync = replica.no_sync()
        with sync:
            with add_error_location(self.data, batch), autocast(processes.device, config.precision):
                moved = batch.to(processes.device)
                # Without its lowest bit, the seed fits in a signed 64-bit integer.
                parts = [term.prepare_batch(model, moved, batch.rows, seed >> 1) for term in self.losses]
                joint = join_rows(moved, parts)
                outcome = self.replica(
                    joint,
                    mean_log_probs=config.label_smoothing > 0,
                    output_attentions=self.output_attentions,
                )
            outcome, parts = split_outcome(outcome, joint, moved, parts)
            if model.reward is not None and moved.target is not None:
                outcome = add_advantage(outcome, moved.target, model.reward)
            loss = self.objective(outcome, config.label_smoothing)
            total = loss.total
            for term, part in zip(self.losses, parts, strict=True):
                total = term.add(total, moved, outcome, part)
            # Without these references, the backward pass can free the activations as it proceeds.
            del outcome, parts
            (total * (scale * weight)).backward()
        # Detached from the graph, which would keep the activations alive.
        return Loss(total.detach() * weight, loss.nll * weight)
