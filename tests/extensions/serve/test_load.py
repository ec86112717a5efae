"""A short load test: clients that disconnect early do not affect the others."""

import asyncio
import sys

import pytest

from extensions.serve.served import SOURCE, save_model
from faults.load import Crowd, growth, resident, start


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_32_clients_with_disconnections_get_correct_answers(tmp_path):
    models = [save_model(tmp_path / "plain"), save_model(tmp_path / "bounded", seed=1, fertility=2.0)]
    with start(models) as (server, port):
        crowd = Crowd(port, SOURCE.split(), ["plain", "bounded"])
        asyncio.run(crowd.run(clients=32, seconds=2))
        assert crowd.wrong == []
        assert crowd.answers["200"] > 30 and crowd.answers["left"] > 0
        # All clients are gone: the queue is empty, and the server responds.
        health = asyncio.run(crowd.health())
        assert health["status"] == "ok" and health["waiting"] == 0
        assert resident(server.pid) < 2000


def test_growth_is_measured_after_the_warm_up():
    assert growth([100.0] * 20 + [200.0] * 80) == 0
    assert growth([200.0] * 50 + [220.0] * 50) == pytest.approx(0.1)
