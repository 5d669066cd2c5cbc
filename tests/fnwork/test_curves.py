"""Series from events, smoothing, and what is left out of a drawing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fnwork import curves

NAN, INF = math.nan, math.inf


def array(*values: float) -> curves.Floats:
    return np.array(values, dtype=float)


def curves_of(events: list[dict]) -> curves.Curves:
    read = curves.Curves()
    for event in events:
        read.take(event)
    return read


def step(number: int, loss: object, **more: object) -> dict:
    return {"kind": "step", "t": float(number), "epoch": 1, "step": number, "loss": loss, "lr": 0.1, **more}


def test_series_from_events():
    read = curves_of(
        [
            {"kind": "start", "t": 0.0},
            step(1, 2.0, data_wait=0.5),
            step(2, NAN),
            {"kind": "memory", "t": 2.5, "bytes": {"weights": 10, "data": 5}},
            {"kind": "epoch", "t": 3.0, "epoch": 1, "step": 2, "train_loss": 2.0, "val_loss": 3.0, "val_accuracy": 0.5},
        ]
    )
    np.testing.assert_array_equal(read.steps["loss"], [2.0, NAN])
    np.testing.assert_array_equal(read.steps["data_wait"], [0.5, NAN])
    np.testing.assert_array_equal(read.memory["total"], [15])
    np.testing.assert_array_equal(read.memory["step"], [2])
    assert read.epochs.last("val_accuracy") == 0.5
    assert math.isnan(read.epochs.last("train_r2"))


@pytest.mark.parametrize("loss", [None, "2", True, [], {}])
def test_what_is_no_number_becomes_a_gap(loss):
    assert np.isnan(curves_of([step(1, loss)]).steps["loss"]).all()


def test_a_resume_takes_back_what_came_after_its_moment():
    events = [step(n, float(n)) for n in range(1, 6)]
    events += [{"kind": "resume", "t": 3.5, "epoch": 1, "step": 3}, step(4, 40.0)]
    read = curves_of(events)
    np.testing.assert_array_equal(read.steps["loss"], [1, 2, 3, 40])


def test_history_grows_and_is_cut():
    history = curves.History("a", "b")
    for n in range(1000):
        history.append(a=n, b=2 * n)
    history.cut_after("a", 499)
    assert len(history) == 500
    np.testing.assert_array_equal(history["b"], 2 * np.arange(500))
    history.append(a=1)
    assert math.isnan(history.last("b"))


def test_smoothing_starts_at_the_first_value_and_skips_what_is_not_finite():
    values = array(3, NAN, 3, INF, 3, -INF, 3)
    np.testing.assert_allclose(curves.smoothed(values, 10), [3, NAN, 3, NAN, 3, NAN, 3], rtol=1e-12)


def test_smoothing_of_nothing():
    assert curves.smoothed(array(), 10).size == 0
    assert np.isnan(curves.smoothed(array(NAN, NAN), 10)).all()
    np.testing.assert_array_equal(curves.smoothed(array(1, 2, 3), 1), [1, 2, 3])


@given(
    st.lists(st.one_of(st.floats(-1e6, 1e6), st.sampled_from([NAN, INF, -INF])), max_size=400),
    st.sampled_from([1, 1.5, 5, 50, 1000]),
)
def test_smoothing_at_once_equals_smoothing_one_by_one(values, window):
    smoother = curves.Smoother(window)
    one_by_one = [smoother.add(value) if math.isfinite(value) else NAN for value in values]
    scale = max((abs(value) for value in values if math.isfinite(value)), default=0)
    np.testing.assert_allclose(
        curves.smoothed(np.array(values, dtype=float), window), one_by_one, atol=1e-7 * scale + 1e-300
    )


def test_the_largest_numbers_do_not_overflow():
    assert np.isfinite(curves.smoothed(array(1, 1.7e308, -1.7e308, 1), 10)).all()
    assert curves.number(10**400) == INF


def test_smoothing_averages_noise_away():
    noisy = 5 + np.random.default_rng(0).normal(size=20_000)
    assert np.std(curves.smoothed(noisy, 100)[1000:]) < 0.1


def test_thinning_keeps_the_extremes_of_every_column():
    rng = np.random.default_rng(1)
    x, y = np.linspace(0, 99, 100_000), rng.normal(size=100_000)
    y[50_000] = 1000
    y[[3, 70_000]] = NAN, INF
    thin_x, thin_y = curves.thinned(x, y, 100)
    assert thin_x.size <= 200
    assert np.all(np.diff(thin_x) >= 0)
    finite = np.isfinite(y)
    assert thin_y.max() == 1000
    assert thin_y.min() == y[finite].min()
    column = np.rint(x) == 40
    assert {y[column].min(), y[column].max()} == set(thin_y[thin_x == 40])


def test_thinning_leaves_a_gap_where_a_column_has_no_finite_value():
    x = np.linspace(0, 9, 1000)
    y = np.where(np.rint(x) == 5, NAN, 1.0)
    thin_x, thin_y = curves.thinned(x, y, 10)
    assert np.isnan(thin_y[thin_x == 5]).all()
    assert np.isfinite(thin_y[thin_x != 5]).all()


def test_thinning_leaves_few_points_as_they_are():
    x, y = array(0, 3, 9), array(1, NAN, 2)
    assert curves.thinned(x, y, 10) == (x, y)


def test_a_logarithmic_axis_leaves_out_zero_and_below_and_says_how_many():
    exponents, left_out = curves.logarithms(array(1, 0, -1, 0.1, NAN, INF))
    np.testing.assert_allclose(exponents, [0, NAN, NAN, -1, NAN, NAN])
    assert left_out == 2


def test_updates_at_once_equal_updates_one_by_one():
    events = [step(1, 1.5), step(2, NAN), step(3, "2"), step(4, True), step(5, 10**400), step(6, None, data_wait=0.5)]
    at_once = curves.Curves()
    at_once.take_steps(events * 40)
    one_by_one = curves_of(events * 40)
    for column in ("step", "t", *curves.STEP_VALUES):
        np.testing.assert_array_equal(at_once.steps[column], one_by_one.steps[column])
    np.testing.assert_array_equal(at_once.steps["loss"][:6], [1.5, NAN, NAN, NAN, INF, NAN])


@given(
    st.lists(st.floats(-1e6, 1e6) | st.sampled_from([NAN, INF]), max_size=60),
    st.integers(0, 60),
    st.sampled_from([1, 5, 50]),
)
def test_smoothing_goes_on_where_it_stopped(values, cut, window):
    smoother, whole = curves.Smoother(window), np.array(values, dtype=float)
    pieces = np.concatenate([smoother.add_all(whole[:cut]), smoother.add_all(whole[cut:])])
    np.testing.assert_allclose(pieces, curves.smoothed(whole, window), atol=1e-3, rtol=1e-9)
    other = curves.Smoother(window)
    for value in values:
        other.add(value)
    assert smoother.count == other.count
    np.testing.assert_allclose(smoother.value, other.value, atol=1e-3)
