"""Several training jobs on one machine."""

import pytest

from regard.extensions.reproduce.runner import threads_per_job


@pytest.mark.parametrize(
    ("jobs", "allowed", "threads"),
    [
        (1, None, 4),
        (2, None, 2),
        (8, None, 1),
        (1, "1", 1),
        (1, "8", 4),
        (4, "2", 1),
        (1, "0", 4),
        (1, "many", 4),
    ],
)
def test_job_gets_its_share_of_the_allowed_processors(monkeypatch, jobs, allowed, threads):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if allowed is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    assert threads_per_job(jobs) == threads
