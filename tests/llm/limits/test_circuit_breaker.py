from random import Random

from toolbank.llm.admission import CircuitBreaker


def down(breaker, at=0.0):
    while not breaker.fail(1, at):
        pass
    return breaker


def test_failures_in_a_row_are_an_outage_and_a_reply_between_them_is_none():
    breaker = CircuitBreaker(600)
    assert not any(breaker.fail(4, 0.0) for _ in range(19))
    breaker.answer()
    assert not any(breaker.fail(4, 0.0) for _ in range(19))
    assert breaker.fail(4, 0.0)
    assert (breaker.is_open, breaker.number) == (True, 1)


def test_random_faults_are_no_outage_at_any_concurrency():
    for most in (1, 8, 64, 256, 1024):
        random = Random(most)
        breaker = CircuitBreaker(600)
        # Faults come at once, and so before the replies of the same moment.
        for _ in range(200_000 // most):
            fates = [random.random() < 0.3 for _ in range(most)]
            for _ in range(sum(fates)):
                assert not breaker.fail(most, 0.0)
            if not all(fates):
                breaker.answer()


def test_one_call_at_a_time_is_made_after_2_4_8_and_at_most_30_seconds():
    breaker = CircuitBreaker(600)
    breaker.answer()
    down(breaker)
    now, waits = 0.0, []
    for _ in range(6):
        waits.append(breaker.delay(now))
        now += waits[-1]
        breaker.begin_probe()
        assert breaker.delay(now) is None
        breaker.end_probe(now)
    assert waits == [2, 4, 8, 16, 30, 30]
