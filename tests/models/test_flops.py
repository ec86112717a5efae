"""Tests of the number of floating-point operations of the models against a manual count."""

from regard.data.batch import collate
from regard.models.conv.config import ConvConfig, ConvSideConfig
from regard.models.conv.model import ConvModel
from regard.models.rnn.config import RnnConfig, RnnDecoderConfig
from regard.models.rnn.layers import RnnEncoderConfig
from regard.models.rnn.model import RnnModel
from regard.models.transformer.config import FeedForwardConfig, TransformerConfig, TransformerSideConfig
from regard.models.transformer.model import TransformerModel
from regard.text.vocabulary import EOS


def test_flops_of_an_lstm_match_a_manual_count() -> None:
    model = RnnModel(
        RnnConfig(
            embedding_size=3,
            encoder=RnnEncoderConfig(num_layers=1, hidden_size=4),
            decoder=RnnDecoderConfig(num_layers=1, hidden_size=4),
            dropout=0.0,
        ),
        10,
        11,
    )
    batch = collate([[5, 6], [5, 6, 7]], [[5, EOS], [5, 6, EOS]], [0, 1])
    encoder = 2 * (3 * 8 + 2 * 8)  # both directions: four gates of width 2, embedding of 3, state of 2
    decoder = (3 + 4 + 4) * 16  # four gates of width 4, from embedding, input feeding and state
    readout = 8 * 4 + 4 * 11  # attentional vector, output layer
    source, target, pairs = 2 + 3, 2 + 3, 2 * 2 + 3 * 3
    attention = source * 4 * 4 + pairs * 4 + pairs * 4  # W h, scores, weighted sums
    assert model.flops(batch) == 6 * (source * encoder + target * (decoder + readout) + attention)


def test_flops_of_a_transformer_match_a_manual_count() -> None:
    side = TransformerSideConfig(num_layers=2)
    config = TransformerConfig(
        d_model=4, num_heads=2, feed_forward=FeedForwardConfig(ffn_size=6), encoder=side, decoder=side
    )
    batch = collate([[5, 6], [5, 6, 7]], [[5, EOS], [5, 6, EOS]], [0, 1])
    source, target, pairs = 2 + 3, 2 + 3, 2 * 2 + 3 * 3
    layer = 4 * 4 * 4 + 2 * 4 * 6  # four projections, and the feed-forward network
    encoder = source * layer + 2 * 4 * (2 * 2 + 3 * 3)  # scores and weighted sums of all positions
    decoder = target * layer + 4 * (2 * 2 + 3 * 3)  # causal: half of the positions
    attention = target * 2 * 4 * 4 + source * 2 * 4 * 4 + 2 * pairs * 4  # attention to the source
    multiplications = 2 * (encoder + decoder + attention) + target * 4 * 11
    assert TransformerModel(config, 10, 11).flops(batch) == 6 * multiplications


def test_flops_of_a_convolutional_model_match_a_manual_count() -> None:
    config = ConvConfig(
        embedding_size=4,
        encoder=ConvSideConfig(num_layers=2, hidden_size=6, kernel_size=3),
        decoder=ConvSideConfig(num_layers=3, hidden_size=5, kernel_size=2),
    )
    batch = collate([[5, 6], [5, 6, 7]], [[5, EOS], [5, 6, EOS]], [0, 1])
    source, target, pairs = 2 + 3, 2 + 3, 2 * 2 + 3 * 3
    encoder = source * (2 * (3 * 6) * (2 * 6) + 2 * 4 * 6)  # windows to gates; projections of embeddings
    layer = 2 * 5 * 2 * 5 + 2 * 4 * 5  # windows to gates, query, context
    decoder = target * (3 * layer + 2 * 4 * 5 + 4 * 11) + 3 * 2 * pairs * 4  # scores and weighted sums
    assert ConvModel(config, 10, 11).flops(batch) == 6 * (encoder + decoder)
