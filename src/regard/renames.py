"""Old names of options, values and flags, and the names that replaced them.

Messages about unknown names use these tables. They are kept for one release.
"""

from collections.abc import Collection, Mapping, Sequence

__all__ = ["FLAGS", "KEYS", "VALUES", "new_flag", "new_key", "new_value"]

_CORPUS = {"weight": "sampling_weight", "tag": "source_prefix"}
_TOKENIZER = {
    "merges": "num_merges",
    "model": "model_type",
    "size": "vocab_size",
    "coverage": "character_coverage",
    "sample": "max_training_lines",
    "folder": "path",
}
_ATTENTION = {
    "map": "normalizer",
    "scorer": "score_function",
    "hidden": "score_hidden_size",
    "fusion": "fusedmax_strength",
    "demand": "lower_bound_bonus",
    "budget": "fertility_sharing",
    "passes": "state_attention",
    "contexts": "top_k",
    "beyond": "tail",
    "mix": "posterior_weight",
    "inference": "inference_hidden_size",
    "window": "window_size",
    "scale": "score_scale",
    "entropy": "entropy_bonus",
    "weight": "reward_weight",
}
_SIDE = {
    "layers": "num_layers",
    "value_layers": "num_value_layers",
    "width": "hidden_size",
    "kernel": "kernel_size",
    "positions": "position_encoding",
    "cell": "rnn_type",
    "feed": "input_feeding",
    "readout": "output_layer",
    "bridge": "state_init",
    "local": "num_localness_layers",
}
_GUIDED, _SEQUENCE = (
    f'training.losses (a list: [[training.losses]] with kind = "{kind}")'
    for kind in ("guided_alignment", "sequence")
)

KEYS: dict[str, dict[str, str]] = {
    "": {
        "folder": "output_dir",
        "threads": "num_threads",
        "guided": _GUIDED,
        "guided_alignment": _GUIDED,
        "sequence": _SEQUENCE,
        "sequence_loss": _SEQUENCE,
        "finetune": "training.fine_tuning",
        "fine_tuning": "training.fine_tuning",
        "search": "generation",
        # Settings of `regard serve --set` and `regard align --set`.
        "origins": "allow_origins",
        "hosts": "allow_hosts",
        "connections": "max_connections",
        "head": "header_timeout",
        "window": "batch_window",
        "batch": "batch_size",
        "queue": "max_queued_sentences",
        "seconds": "request_timeout",
        "body": "max_request_bytes",
        "characters": "max_characters",
        "sentences": "max_sentences",
        "words": "max_words",
        "beam": "max_beam_size",
        "chains": "num_chains",
        "samples": "num_samples",
        "null": "null_probability (of ibm1: null_word)",
    },
    "data": {
        "folder": "cache_dir",
        "source_size": "source_vocab_size",
        "target_size": "target_vocab_size",
        "min_count": "min_frequency",
        "joint_vocabulary": "shared_vocab",
    },
    "train": _CORPUS,
    "valid": _CORPUS,
    "test": _CORPUS,
    "source_tokenizer": _TOKENIZER,
    "target_tokenizer": _TOKENIZER,
    "fertility": {"extra": "slack", "width": "hidden_size", "epochs": "max_epochs"},
    "model": {
        "embedding": "embedding_size",
        "width": "d_model",
        "heads": "num_heads",
        "layers": "num_layers (in models of Hugging Face: attention_layers)",
        "norm": "norm_position",
        "positions": "position_encoding",
        "tied": "tie_embeddings",
        "uniform": "init_range",
        "attentions": "layer_attention",
        "shared_gradient": "scale_encoder_gradient",
        "folder": "path",
        "max_phrase": "max_phrase_length",
        "order": "lm_order",
        "stack": "stack_size",
        "options": "max_options",
        "start": "init_from",
    },
    "encoder": _SIDE,
    "decoder": _SIDE,
    "attention": _ATTENTION,
    "layer_attention": _ATTENTION,
    "feed_forward": {"width": "ffn_size"},
    "position_encoding": {"length": "max_length"},
    "aligner": {
        "chains": "num_chains",
        "samples": "num_samples",
        "null": "null_probability (of ibm1: null_word)",
    },
    "tuning": {"rounds": "num_rounds", "nbest": "nbest_size", "restarts": "num_restarts"},
    "training": {
        "accumulate": "gradient_accumulation",
        "batch": "batch_size, batch_unit and bucket_batches",
        "schedule": "lr_scheduler",
        "start": "init_from",
        "stop": "max_epochs, max_steps and max_minutes",
        "record": "logging",
    },
    "optimizer": {"rate": "learning_rate", "clip": "max_grad_norm", "normalize": "loss_normalization"},
    "lr_scheduler": {"warmup": "warmup_steps", "least": "min_factor", "start": "start_epoch"},
    "validation": {"every": "every_steps", "patience": "early_stopping_patience"},
    "checkpoint": {"every": "every_steps", "minutes": "every_minutes", "keep": "keep_last_epochs"},
    "logging": {"every": "every_steps"},
    "generation": {
        "beam": "beam_size",
        "nbest": "num_return",
        "max_length_extra": "max_length_offset",
        "no_repeat_ngram": "no_repeat_ngram_size",
        "forbid_unknown": "suppress_unk",
        "batch": "batch_size, max_batch_tokens, max_source_length and buffer_lines",
    },
    "coverage_penalty": {"floor": "epsilon", "unfinished": "rescore_only (with the opposite value)"},
    "scheme": {
        "stop": "stopping",
        "transformers": "hf_compatible",
        "forced_end": "forced_eos",
        "renormalize": "renormalize_logits",
        "suppress": "suppress_tokens",
    },
    "alignment": {"replace_unknown": "replace_unk"},
    "losses": {
        "loss": "method",
        "count": "num_candidates",
        "sharpness": "alpha",
        "own": "likelihood_weight",
    },
    "fine_tuning": {"frozen": "freeze_steps", "every": "unfreeze_every", "rate": "lr_factor"},
    "text": {"size": "vocab_size"},
}
"""For each table, by the last part of its path, the old keys and the keys that replaced them.

A new key may be in another table below the same one, as in `training.fine_tuning`.
"""

VALUES: dict[str, dict[str, str]] = {
    "score_function": {"scaled": "scaled_dot", "general": "bilinear", "scaled_general": "scaled_bilinear"},
    "fertility_sharing": {"head": "per_head", "layer": "per_layer"},
    "tail": {"renormalise": "renormalize"},
    "coupling": {"forward": "hard_monotonic"},
    "tie_embeddings": {"target": "decoder"},
    "direction": {"both": "bidirectional", "reversed": "backward"},
    "stopping": {"likely": "heuristic", "certain": "exact", "full": "first_n"},
    "reordering": {"lexicalised": "lexicalized"},
    "method": {"risk": "mrt"},
    "kind": {
        "lstm": "rnn",
        "recurrent": "rnn",
        "inverse-sqrt": "inverse_sqrt",
        "halving": "exponential",
    },
}
"""For each key, the old values and the values that replaced them."""

_SHARED_FLAGS = {
    "--threads": "--num-threads",
    "--batch": "--batch-size",
    "--beam": "--beam-size",
    "--gold": "--gold-links",
    "--coverage-floor": "--coverage-epsilon",
}

FLAGS: dict[str, dict[str, str]] = {
    "actions": {
        "--into": "--output-dir",
    },
    "align": {
        "--prepared": "--prepared-dir",
        "--least": "--min-posterior",
        "--save": "--save-aligner",
        "--load": "--aligner",
    },
    "average": {
        "--last": "--last-epochs",
    },
    "evaluate": {
        "--other": "--baseline",
        "--metric": "--metrics",
        "--links-reference": "--reference-links",
        "--links-output": "--hypothesis-links",
        "--links-other": "--baseline-links",
        "--repetition": "--rep-parameters",
        "--sentences": "--sentence-scores",
        "--resamples": "--num-bootstrap-samples",
        "--links": "--predicted-links",
    },
    "export": {
        "--output": "--output-dir",
        "--force": "--overwrite",
    },
    "fertility": {
        "--words": "--per-word",
        "--add": "--slack",
        "--train-predictor": "--save-predictor",
        "--predict": "--predictor",
        "--valid": "--validation",
    },
    "figures": {
        "--output": "--output-dir",
        "--from": "--input",
        "--word": "--token",
    },
    "lm": {
        "--load": "--model",
    },
    "phrasebook": {
        "--train": "--num-train",
        "--valid": "--num-valid",
        "--test": "--num-test",
    },
    "pretrain": {
        "--out": "--output-dir",
    },
    "quickstart": {
        "--folder": "--output-dir",
    },
    "report": {
        "--own-test": "--config-test",
        "--lines": "--max-lines",
        "--maps": "--attention-maps",
    },
    "reproduce": {
        "--data": "--data-dir",
        "--jobs": "--num-jobs",
        "--target": "--target-language",
        "--pairs": "--max-train-pairs",
        "--out": "--output-dir",
        "--show": "--no-train",
    },
    "score": {
        "--with": "--ensemble-with",
        "--tokens": "--token-scores",
        "--alignment": "--links-output",
    },
    "tour": {
        "--folder": "--output-dir",
        "--stops": "--systems",
        "--pairs": "--num-train",
    },
    "train": {
        "--out": "--output-dir",
        "--from": "--init-from",
    },
    "translate": {
        "--alignment": "--links-output",
        "--attention": "--attention-output",
        "--tokens": "--tokens-output",
        "--show": "--show-attention",
        "--nbest": "--num-return",
        "--scores": "--with-scores",
        "--prefix": "--prefixes",
        "--terms": "--required-terms",
        "--fertility": "--fertilities",
        "--candidates": "--mbr-candidates",
        "--mbr-weights": "--mbr-weighting",
        "--no-repeat-ngram": "--no-repeat-ngram-size",
        "--max-length-extra": "--max-length-offset",
        "--forbid-unknown": "--suppress-unk",
        "--allow-unknown": "--allow-unk",
        "--replace-unknown": "--replace-unk",
    },
    "tune": {
        "--alpha": "--length-penalties",
        "--beta": "--coverage-penalties",
    },
}
"""For each command, the old flags and the flags that replaced them, in addition to those of all commands."""


def new_key(path: Sequence[str], known: Collection[str]) -> str | None:
    """Return the path that replaced an old option, or None if the option was never known.

    Args:
        path: The parts of the path of the unknown key. The tables above it have their new names; elements of
            lists are numbers.
        known: The keys that exist in its table. Tables of the same name may have different keys.
    """
    *tables, key = path
    names = ["", *(table for table in tables if not table.isdecimal())]
    found = KEYS.get(names[-1], {}).get(key)
    # An entry may explain the new key after its first word. The new key must exist in this table, because
    # tables of the same name may have different keys.
    if found is None or key in known or found.split()[0].rstrip(",").split(".")[0] not in known:
        return None
    return ".".join([*tables, found])


def new_value(key: str, value: object) -> str | None:
    """Return the value that replaced an old value of a key, or None if the value was never known."""
    values: Mapping[str, str] = VALUES.get(key, {})
    return values.get(value) if isinstance(value, str) else None


def new_flag(command: str, flag: str) -> str | None:
    """Return the flag that replaced an old flag of a command, or None if the flag was never known."""
    return FLAGS.get(command, {}).get(flag) or _SHARED_FLAGS.get(flag)
