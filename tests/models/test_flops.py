from regard.data.batch import collate
from regard.data.vocabulary import EOS
from regard.models.lstm import LstmModel
from regard.models.lstm_config import DecoderConfig, LstmConfig
from regard.models.recurrent import EncoderConfig


def test_operations_are_those_counted_by_hand() -> None:
    model = LstmModel(
        LstmConfig(
            embedding=3,
            encoder=EncoderConfig(layers=1, width=4),
            decoder=DecoderConfig(layers=1, width=4),
            dropout=0.0,
        ),
        10,
        11,
    )
    batch = collate([[5, 6], [5, 6, 7]], [[5, EOS], [5, 6, EOS]], [0, 1])
    encoder = 2 * (3 * 8 + 2 * 8)  # both ways: four gates of width 2 from an embedding of 3 and a state of 2
    decoder = (3 + 4 + 4) * 16  # four gates of width 4 from embedding, feed and state
    readout = 8 * 4 + 4 * 11  # attentional vector, output layer
    source, target, pairs = 2 + 3, 2 + 3, 2 * 2 + 3 * 3
    attention = source * 4 * 4 + pairs * 4 + pairs * 4  # W h, scores, weighted sums
    assert model.flops(batch) == 6 * (source * encoder + target * (decoder + readout) + attention)
