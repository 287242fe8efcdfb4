from random import Random

from toolbank.llm.control.outage import Outage


def down(outage, at=0.0):
    while not outage.fail(1, at):
        pass
    return outage


def test_failures_in_a_row_are_an_outage_and_a_reply_between_them_is_none():
    outage = Outage(600)
    assert not any(outage.fail(4, 0.0) for _ in range(19))
    outage.answer()
    assert not any(outage.fail(4, 0.0) for _ in range(19))
    assert outage.fail(4, 0.0)
    assert (outage.is_down, outage.number) == (True, 1)


def test_random_faults_are_no_outage_at_any_concurrency():
    for most in (1, 8, 64, 256, 1024):
        random = Random(most)
        outage = Outage(600)
        # Faults come at once, and so before the replies of the same moment.
        for _ in range(200_000 // most):
            fates = [random.random() < 0.3 for _ in range(most)]
            for _ in range(sum(fates)):
                assert not outage.fail(most, 0.0)
            if not all(fates):
                outage.answer()


def test_one_call_at_a_time_is_made_after_2_4_8_and_at_most_30_seconds():
    outage = Outage(600)
    outage.answer()
    down(outage)
    now, waits = 0.0, []
    for _ in range(6):
        waits.append(outage.delay(now))
        now += waits[-1]
        outage.begin_probe()
        assert outage.delay(now) is None
        outage.end_probe(now)
    assert waits == [2, 4, 8, 16, 30, 30]


def test_a_reply_ends_it():
    outage = down(Outage(600))
    assert outage.answer()
    assert not outage.is_down
    assert outage.delay(0.0) == 0
    assert not outage.answer()


def test_an_endpoint_that_never_answered_is_given_up_sooner():
    outage = down(Outage(600), at=100.0)
    assert not outage.is_too_long(129.0)
    assert outage.is_too_long(130.0)
    outage.answer()
    down(outage, at=200.0)
    assert not outage.is_too_long(799.0)
    assert outage.is_too_long(800.0)


def test_the_last_probe_is_made_when_the_time_is_over():
    outage = down(Outage(5))
    outage.begin_probe()
    outage.end_probe(2.0)
    assert outage.delay(2.0) == 3.0
