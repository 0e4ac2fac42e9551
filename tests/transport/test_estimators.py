"""Estimators in the manner of scikit-learn, and colour transfer."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_sample_image
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from condgrad import Status
from condgrad.datasets import make_clusters
from condgrad.transport import (
    EntropicTransport,
    GroupLasso,
    GroupTransport,
    LaplaceTransport,
    Laplacian,
    estimators,
    recolor,
    solve,
)
from condgrad.transport.color import lab_of, srgb_of
from tests.transport import Array, judge, marginal_error, squared_distances, within

RNG = np.random.default_rng(0)
XS, XT, YS, YT = make_clusters(24, seed=3)
XT = XT[:18]
YT = YT[:18]
A, B = np.full(24, 1 / 24), np.full(18, 1 / 18)

SHARED: dict[str, Any] = {
    "metric": "cityblock",
    "norm": "max",
    "tol": 1e-3,
    "max_iter": 7,
    "method": "cgs",
    "time_limit": 9.0,
    "verbose": True,
}
CHANGED: dict[type, dict[str, Any]] = {
    EntropicTransport: {"entropy": 0.3, **SHARED},
    LaplaceTransport: {
        "entropy": 0.3,
        "weight": 7.0,
        "neighbors": 4,
        "normalized": False,
        "source": 0.5,
        "target": 2.0,
        **SHARED,
    },
    GroupTransport: {"entropy": 0.3, "weight": 0.7, **SHARED},
}
every_kind = pytest.mark.parametrize("kind", CHANGED)


def fitted(kind: type, **options: Any) -> Any:
    return kind(**options).fit(XS, YS, XT)


# --- parameters ---


@every_kind
def test_every_parameter_survives(kind: type) -> None:
    """get_params, set_params, clone and repr know them all, changed from their defaults."""
    estimator = kind(**CHANGED[kind])
    assert estimator.get_params() == CHANGED[kind]
    assert set(kind().get_params()) == set(CHANGED[kind])
    assert all(kind().get_params()[name] != value for name, value in CHANGED[kind].items())
    assert clone(estimator).get_params() == CHANGED[kind]
    assert kind().set_params(**CHANGED[kind]).get_params() == CHANGED[kind]
    assert "metric='cityblock'" in repr(estimator)


@every_kind
def test_unknown_parameters_are_refused(kind: type) -> None:
    with pytest.raises(ValueError, match="Invalid parameter 'reg'"):
        kind().set_params(reg=1.0)


@every_kind
def test_a_clone_of_a_fitted_estimator_is_not_fitted(kind: type) -> None:
    again = clone(fitted(kind))
    assert not hasattr(again, "plan_")
    with pytest.raises(NotFittedError, match=f"{kind.__name__} instance is not fitted"):
        again.transform(XS)
    with pytest.raises(NotFittedError):
        again.inverse_transform(XT)


@every_kind
def test_fit_changes_no_parameter_and_no_input(kind: type) -> None:
    estimator, Xs, ys, Xt = kind(), XS.copy(), YS.copy(), XT.copy()
    before = estimator.get_params()
    assert estimator.fit(Xs, ys, Xt) is estimator
    assert estimator.get_params() == before
    for now, then in ((Xs, XS), (ys, YS), (Xt, XT)):
        np.testing.assert_array_equal(now, then)


@every_kind
def test_pickling(kind: type) -> None:
    estimator = fitted(kind)
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.transform(XS), estimator.transform(XS))
    assert again.dual_gap_ == estimator.dual_gap_


# --- what fit leaves behind ---


@every_kind
def test_fitted_attributes(kind: type) -> None:
    estimator = fitted(kind)
    assert estimator.plan_.shape == (24, 18)
    assert marginal_error(estimator.plan_, A, B) <= 1e-12
    assert estimator.n_features_in_ == 2
    assert estimator.n_iter_ == estimator.result_.iterations
    assert estimator.dual_gap_ == estimator.result_.gap >= 0.0
    assert estimator.result_.success
    public = {
        name
        for name in vars(estimator)
        if name not in estimator.get_params() and not name.startswith("_")
    }
    assert all(name.endswith("_") for name in public)


def test_the_plan_is_the_entropic_one() -> None:
    """Against plain Sinkhorn, certificate and all."""
    estimator = fitted(EntropicTransport, entropy=0.1, tol=1e-9)
    judged = judge(squared_distances(XS, XT), A, B, 0.1)
    np.testing.assert_allclose(estimator.plan_, judged.plan, atol=1e-5)
    assert estimator.result_.lower_bound <= judged.upper
    assert estimator.result_.value >= judged.lower - 1e-15
    assert estimator.dual_gap_ <= 1e-9


@pytest.mark.parametrize("kind", [LaplaceTransport, GroupTransport])
def test_no_weight_is_the_entropic_plan(kind: type) -> None:
    estimator = fitted(kind, entropy=0.1, weight=0.0, tol=1e-9)
    np.testing.assert_allclose(
        estimator.plan_, judge(squared_distances(XS, XT), A, B, 0.1).plan, atol=1e-5
    )


@pytest.mark.parametrize(
    ("kind", "regularizer"),
    [(LaplaceTransport, Laplacian(XS, XT, 1.0)), (GroupTransport, GroupLasso(YS, 1.0))],
)
def test_the_regulariser_is_asked_for(kind: type, regularizer: Any) -> None:
    """Its value at the plan falls as its weight grows."""
    estimators = [fitted(kind, entropy=0.1, weight=weight, tol=1e-8) for weight in (0.0, 3.0)]
    before, after = (
        regularizer.smooth_part().at(estimator.plan_).value for estimator in estimators
    )
    assert after < before


@every_kind
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "cityblock"])
def test_metric_makes_the_cost(kind: type, metric: str) -> None:
    estimator = fitted(kind, metric=metric, entropy=0.2)
    np.testing.assert_allclose(
        estimator.result_.problem[0].at(np.zeros((24, 18))).gradient, cdist(XS, XT, metric)
    )


@every_kind
def test_fitting_again_forgets(kind: type) -> None:
    """Other samples, another number of features."""
    estimator = fitted(kind)
    Xs, Xt = RNG.random((9, 3)), RNG.random((8, 3))
    estimator.fit(Xs, np.arange(9) % 2, Xt)
    assert estimator.plan_.shape == (9, 8)
    assert estimator.n_features_in_ == 3
    np.testing.assert_array_equal(
        estimator.transform(Xs), kind().fit(Xs, np.arange(9) % 2, Xt).transform(Xs)
    )


@every_kind
def test_limits_are_passed_on(kind: type) -> None:
    with pytest.warns(ConvergenceWarning, match="iteration limit.*certified.*max_iter"):
        estimator = fitted(kind, max_iter=1, tol=1e-15)
    assert estimator.n_iter_ <= 1
    assert marginal_error(estimator.plan_, A, B) <= 1e-12


@every_kind
def test_a_time_limit_is_passed_on(kind: type) -> None:
    with pytest.warns(
        ConvergenceWarning, match=r"time limit was reached.*the optimum. Raise time_limit or tol"
    ) as seen:
        estimator = fitted(kind, time_limit=0.0, tol=1e-15)
    proved = (
        f"certified to {estimator.dual_gap_:.3g} of"
        if estimator.dual_gap_ < np.inf
        else "nothing was proved"
    )
    assert proved in str(seen[0].message)
    assert estimator.result_.status is Status.TIME_LIMIT
    assert marginal_error(estimator.plan_, A, B) <= 1e-12


@every_kind
def test_methods_and_progress_are_passed_on(
    kind: type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def recorded(*args: Any, **options: Any) -> Any:
        asked.append(options)
        return solve(*args, **options)

    monkeypatch.setattr(estimators, "solve", recorded)
    fitted(kind, method="cgs", tol=1e-2, verbose=True)
    assert "gap" in capsys.readouterr().err
    fitted(kind)
    assert capsys.readouterr().err == ""
    assert [options["method"] for options in asked] == ["cgs", "auto"]


def interrupted(*args: Any, **options: Any) -> Any:
    """`solve`, with Ctrl-C during its first iteration."""

    def callback(_: Any) -> None:
        raise KeyboardInterrupt

    return solve(*args, **options, callback=callback)


@every_kind
def test_an_interrupt_ends_a_fit(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimators, "solve", interrupted)
    estimator = kind()
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(XS, YS, XT)
    assert not hasattr(estimator, "plan_")
    assert not hasattr(estimator, "result_")


# --- transform ---


@every_kind
def test_training_points_move_to_their_barycentres(kind: type) -> None:
    estimator = fitted(kind)
    np.testing.assert_allclose(
        estimator.transform(XS), estimator.plan_ @ XT / A[:, None], atol=1e-12
    )
    np.testing.assert_allclose(
        estimator.inverse_transform(XT), estimator.plan_.T @ XS / B[:, None], atol=1e-12
    )
    np.testing.assert_allclose(kind().fit_transform(XS, YS, XT), estimator.transform(XS))


@every_kind
def test_new_points_move_with_their_nearest_source(kind: type) -> None:
    """The displacement of the nearest training point, found here by brute force."""
    estimator, X = fitted(kind), XS[:7] + 0.02 * RNG.standard_normal((7, 2))
    nearest = squared_distances(X, XS).argmin(axis=1)
    moved = estimator.plan_ @ XT / A[:, None]
    np.testing.assert_allclose(estimator.transform(X), X + (moved - XS)[nearest], atol=1e-12)
    back = estimator.plan_.T @ XS / B[:, None]
    nearest = squared_distances(X, XT).argmin(axis=1)
    np.testing.assert_allclose(estimator.inverse_transform(X), X + (back - XT)[nearest], atol=1e-12)


def test_a_shift_is_found_and_undone() -> None:
    """At small entropy the plan of a shifted cloud is the shift, both ways."""
    shift = np.array([0.05, -0.02])
    estimator = EntropicTransport(1e-5, tol=1e-6).fit(XS, Xt=XS + shift)
    np.testing.assert_allclose(estimator.transform(XS), XS + shift, atol=1e-2)
    np.testing.assert_allclose(estimator.inverse_transform(XS + shift), XS, atol=1e-2)


@every_kind
@pytest.mark.parametrize("direction", ["transform", "inverse_transform"])
def test_wrong_points_are_refused(kind: type, direction: str) -> None:
    move = getattr(fitted(kind), direction)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 2 features"):
        move(RNG.random((4, 3)))
    with pytest.raises(ValueError, match="NaN"):
        move(np.full((4, 2), np.nan))
    with pytest.raises(ValueError, match="2D array"):
        move(np.zeros(2))


@every_kind
def test_feature_names_are_kept_and_checked(kind: type) -> None:
    frame = pd.DataFrame(XS, columns=["width", "height"])
    estimator = kind().fit(frame, YS, pd.DataFrame(XT, columns=["width", "height"]))
    np.testing.assert_array_equal(estimator.feature_names_in_, ["width", "height"])
    np.testing.assert_allclose(estimator.transform(frame), fitted(kind).transform(XS))
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.transform(pd.DataFrame(XS, columns=["breadth", "height"]))


@every_kind
def test_lists_and_integers_are_numbers(kind: type) -> None:
    estimator = kind().fit([[0, 0], [0, 4], [5, 5]], ["a", "b", "a"], [[1, 1], [1, 4], [6, 5]])
    assert estimator.transform([[0, 0]]).shape == (1, 2)


# --- labels ---


def crossing(plan: Array, known: Array) -> float:
    """The mass that goes to a known target of another class."""
    return float(plan[(YS[:, None] != YT[None, :]) & known[None, :]].sum())


@every_kind
def test_known_target_labels_keep_classes_together(kind: type) -> None:
    """-1 stands for unknown; next to no mass crosses between known classes beyond what the masses force."""
    known = np.arange(18) % 2 == 0
    yt = np.where(known, YT, -1)
    free, held = kind(0.05).fit(XS, YS, XT), kind(0.05).fit(XS, YS, XT, yt)
    assert crossing(held.plan_, known) < 1e-3
    assert crossing(held.plan_, known) < 0.1 * crossing(free.plan_, known)
    none = kind(0.05).fit(XS, YS, XT, np.full(18, -1))
    np.testing.assert_allclose(none.plan_, free.plan_, atol=1e-12)


def test_labels_of_the_target_may_be_strings() -> None:
    names = np.array(["ant", "bee", "cat", "dog"])
    by_name = EntropicTransport(0.1).fit(XS, names[YS], XT, names[YT])
    by_number = EntropicTransport(0.1).fit(XS, YS, XT, YT)
    np.testing.assert_allclose(by_name.plan_, by_number.plan_, atol=1e-12)


# --- what they are for ---

ADAPTING = {
    "entropic": EntropicTransport(0.01),
    "laplace": LaplaceTransport(0.01, 1.0, neighbors=5),
    "groups": GroupTransport(0.01, 0.05),
}


@pytest.mark.parametrize("estimator", ADAPTING.values(), ids=ADAPTING.keys())
def test_adaptation_helps_a_classifier(estimator: Any) -> None:
    """Clusters moved by more than the distance between them: 1-NN on the moved sources knows the targets."""
    rng = np.random.default_rng(5)
    centres = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    ys, yt = np.arange(60) % 3, np.arange(45) % 3
    Xs = centres[ys] + 0.1 * rng.standard_normal((60, 2))
    Xt = centres[yt] + 0.1 * rng.standard_normal((45, 2)) + np.array([0.7, 0.2])
    plain = KNeighborsClassifier(1).fit(Xs, ys).score(Xt, yt)
    moved = clone(estimator).fit(Xs, ys, Xt).transform(Xs)
    adapted = KNeighborsClassifier(1).fit(moved, ys).score(Xt, yt)
    assert plain < 0.8
    assert adapted > 0.95


@every_kind
def test_in_a_pipeline(kind: type) -> None:
    """As a last step and before a classifier, Xt by fit parameters; and its parameters by their long names."""
    name = kind.__name__.lower()
    scaled = StandardScaler().fit(XS).transform(XT)
    pipeline = make_pipeline(StandardScaler(), kind())
    pipeline.fit(XS, YS, **{f"{name}__Xt": scaled})
    assert pipeline.transform(XS).shape == (24, 2)
    pipeline.set_params(**{f"{name}__entropy": 0.5})
    assert pipeline[-1].entropy == 0.5
    classifier = make_pipeline(kind(), KNeighborsClassifier(1))
    classifier.fit(XS, YS, **{f"{name}__Xt": XT})
    assert classifier.predict(XS).shape == (24,)


def test_choosing_an_entropy_by_hand() -> None:
    """The loop that a grid search would run: clones with other parameters, each fitted afresh."""
    base = EntropicTransport(tol=1e-8)
    spread = [
        clone(base).set_params(entropy=entropy).fit(XS, Xt=XT).transform(XS).std()
        for entropy in (0.01, 0.1, 10.0)
    ]
    assert spread[0] > spread[1] > spread[2]


# --- colours ---


def picture(
    height: int, width: int, channels: int = 3, *, low: int = 0, high: int = 256, seed: int = 0
) -> Array:
    return np.random.default_rng(seed).integers(
        low, high, (height, width, channels), dtype=np.uint8
    )


def test_an_interrupt_ends_a_recolouring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimators, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recolor(picture(5, 5), picture(5, 5, seed=1), samples=10)


@pytest.mark.usefixtures("coarse_table")
@pytest.mark.parametrize("weight", [0.0, 1e-2])
def test_a_recolouring_has_limits_and_a_line(
    weight: float, capsys: pytest.CaptureFixture[str]
) -> None:
    image, palette = picture(6, 6), picture(6, 6, seed=1)
    with pytest.warns(ConvergenceWarning, match="time limit was reached"):
        hurried = recolor(image, palette, weight=weight, samples=36, tol=1e-12, time_limit=0.0)
    assert hurried.shape == image.shape
    assert capsys.readouterr().err == ""
    recolor(image, palette, weight=weight, samples=36, progress=True)
    assert "gap" in capsys.readouterr().err


@pytest.mark.usefixtures("coarse_table")
@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("weight", [0.0, 1e-2])
def test_recoloured_images_look_like_images(channels: int, weight: float) -> None:
    """Same shape, same type, opacity untouched, inputs too."""
    image, palette = picture(9, 11, channels), picture(6, 5, 7 - channels, seed=1)
    before, palette_before = image.copy(), palette.copy()
    result = recolor(image, palette, samples=60, weight=weight)
    assert result.dtype == np.uint8
    assert result.shape == image.shape
    np.testing.assert_array_equal(image, before)
    np.testing.assert_array_equal(palette, palette_before)
    np.testing.assert_array_equal(result[..., 3:], image[..., 3:])
    assert not np.shares_memory(result, image)


@pytest.mark.usefixtures("coarse_table")
def test_the_seed_decides() -> None:
    image, palette = picture(15, 15), picture(15, 15, seed=1)
    once, again, other = (recolor(image, palette, samples=40, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()


def test_its_own_palette_leaves_an_image_nearly_alone() -> None:
    """All pixels sampled, next to no entropy: the identity, up to the blur of the entropy."""
    image = picture(8, 8, seed=2)
    result = recolor(image, image, samples=64, entropy=1e-5)
    assert abs(result.astype(int) - image.astype(int)).mean() <= 3.0


def test_colours_move_into_the_palette() -> None:
    """A dark image in bright colours, with their mean and most of their spread."""
    image, palette = picture(10, 10, high=100), picture(10, 10, low=150, seed=1)
    result = recolor(image, palette, samples=100)
    assert result.min() >= 120
    np.testing.assert_allclose(result.mean(axis=(0, 1)), palette.mean(axis=(0, 1)), atol=6.0)
    assert (result.std(axis=(0, 1)) > 0.5 * palette.std(axis=(0, 1))).all()


@pytest.mark.slow
def test_an_affine_change_of_colours_is_found() -> None:
    """The spline bends nothing where the plan is affine: brighter and less contrast, in Lab."""
    lab = lab_of(picture(20, 20, low=80, high=180, seed=5) / 255.0)
    image, palette = (
        srgb_of(lab),
        srgb_of(0.6 * (lab - lab.mean(axis=(0, 1))) + lab.mean(axis=(0, 1)) + 0.05),
    )
    result = recolor(image, palette, samples=400, entropy=1e-5)
    np.testing.assert_allclose(result, palette, atol=0.02)


def test_lab_colours() -> None:
    """White, and the red, green and blue of sRGB, as the tables of CIE Lab (D65) have them; and back."""
    corners = np.array(
        [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    )
    tabled: Any = [
        [100, 0, 0],
        [53.24, 80.09, 67.20],
        [87.74, -86.18, 83.18],
        [32.30, 79.19, -107.86],
        [0, 0, 0],
    ]
    np.testing.assert_allclose(100.0 * lab_of(corners), tabled, atol=0.02)
    some = RNG.random((50, 3))
    np.testing.assert_allclose(srgb_of(lab_of(some)), some, atol=1e-6)


@pytest.mark.usefixtures("coarse_table")
def test_a_flat_palette_gives_a_flat_image() -> None:
    flat = np.full((5, 5, 3), (200, 40, 90), dtype=np.uint8)
    assert (recolor(picture(9, 9, seed=6), flat) == flat[0, 0]).all()


@pytest.mark.usefixtures("coarse_table")
def test_noise_in_a_sepia_image_is_not_magnified() -> None:
    """Colours along a line but for a little noise: across the line the map has no wild slopes."""
    brown = np.linspace(0.1, 0.9, 50)[:, None, None] * np.array([1.0, 0.8, 0.6])
    noise = 0.01 * RNG.standard_normal((50, 20, 3))
    result = recolor(np.clip(brown + noise, 0.0, 1.0), picture(9, 9, seed=1))
    assert result.std(axis=1).mean() < 12.0 * noise.std()  # 16 where slopes are free


@pytest.mark.usefixtures("coarse_table")
def test_strength_goes_from_nothing_to_all() -> None:
    image, palette = picture(12, 12, high=120), picture(12, 12, low=120, seed=1)
    none, half, whole = (recolor(image, palette, strength=s).astype(float) for s in (0.0, 0.5, 1.0))
    assert abs(none - image).max() <= 1.0
    assert none.mean() + 20 < half.mean() < whole.mean() - 20


@functools.cache
def recoloured_bytes() -> tuple[Array, Array, Array]:
    """A fine image between 0 and 1, a palette, and what becomes of its bytes."""
    down, along = np.meshgrid(np.linspace(0.2, 0.7, 40), np.linspace(0.1, 0.5, 40), indexing="ij")
    fine = np.stack([down, along, 0.3 + 0.4 * down * along], axis=2)
    palette = picture(9, 9, low=120, seed=1)
    return fine, palette, recolor(np.rint(255 * fine).astype(np.uint8), palette)


@pytest.mark.parametrize(
    "kind", [np.uint16, np.float32, pytest.param(np.float64, marks=pytest.mark.slow)]
)
def test_other_types_have_the_colours_of_bytes(kind: Any) -> None:
    """Sixteen bits and floats are kept, and lose nothing to eight bits."""
    full = 65535 if kind is np.uint16 else 1.0
    fine, palette, of_bytes = recoloured_bytes()
    result = recolor((full * fine).astype(kind), palette)
    assert result.dtype == kind
    assert len(np.unique(result)) > 500
    np.testing.assert_allclose(result / full, of_bytes / 255.0, atol=0.02)


@pytest.mark.usefixtures("coarse_table")
def test_grey_images_stay_grey() -> None:
    image, palette = picture(12, 12, high=120)[..., 0], picture(12, 12, low=150, seed=1)
    result = recolor(image, palette)
    assert result.shape == image.shape
    lightness = [lab_of(np.repeat(result[..., None], 3, axis=2) / 255.0), lab_of(palette / 255.0)]
    assert lightness[0][..., 0].mean() == pytest.approx(lightness[1][..., 0].mean(), abs=0.02)
    colourful = recolor(palette, image)
    assert colourful.shape == palette.shape
    assert np.ptp(colourful.astype(int), axis=2).max() <= 3


def blockiness(image: Array) -> float:
    """The mean jump of grey across the borders of 8 x 8 blocks, over that within blocks."""
    grey = image.astype(float).mean(axis=2)
    jumps = [abs(np.diff(grey, axis=1)), abs(np.diff(grey, axis=0)).T]
    border, within_blocks = (
        sum(float(jump[:, (np.arange(jump.shape[1]) % 8 == 7) == at].mean()) for jump in jumps)
        for at in (True, False)
    )
    return border / within_blocks


def sky_seam(image: Array) -> float:
    """The largest jump between neighbouring columns of the sky of the temple, averaged over 40 rows, in bytes."""
    return float(abs(np.diff(image[:40, 330:].astype(float).mean(axis=0), axis=0)).max())


@pytest.mark.parametrize("smooth", [0.0, 8.0])
@pytest.mark.slow
def test_photographs(smooth: float) -> None:
    """The blocks of their compression are magnified by a tenth at most, and no seam runs through the sky."""
    temple, flower = load_sample_image("china.jpg"), load_sample_image("flower.jpg")
    warm, cool = recolor(temple, flower, smooth=smooth), recolor(flower, temple, smooth=smooth)
    assert blockiness(warm) <= 1.1 * blockiness(temple)
    assert blockiness(cool) <= 1.1 * blockiness(flower)
    assert sky_seam(warm) <= 6.0  # 26 where every colour moves by itself, 1.6 in the photograph


@pytest.mark.slow
@pytest.mark.usefixtures("coarse_table")
def test_smoothing_keeps_edges() -> None:
    """A field of noise beside another: after smoothing in space the noise is that of the input, and the edge stays."""
    noise = 0.02 * RNG.standard_normal((40, 60, 3))
    image = np.clip(np.where(np.arange(60)[None, :, None] < 30, 0.2, 0.7) + noise, 0.0, 1.0)
    palette = np.clip(
        np.where(np.arange(60)[None, :, None] < 30, 0.05, 0.95) + 4.0 * noise, 0.0, 1.0
    )
    plain, smoothed = recolor(image, palette), recolor(image, palette, smooth=5.0)
    left = np.s_[:, 5:25]
    assert smoothed[left].std() < plain[left].std()
    assert smoothed[left].std() < 1.5 * image[left].std()
    assert smoothed[:, 31:].mean() - smoothed[:, :29].mean() > 0.6


@pytest.mark.usefixtures("coarse_table")
def test_equal_colours_stay_equal() -> None:
    image = picture(10, 10, seed=3) // 64 * 64
    result = recolor(image, picture(10, 10, seed=4), samples=30)
    colors: dict[Any, Any] = {}
    for before, after in zip(image.reshape(-1, 3), result.reshape(-1, 3), strict=True):
        assert colors.setdefault(tuple(before), tuple(after)) == tuple(after)


@pytest.mark.usefixtures("coarse_table")
def test_images_of_one_colour() -> None:
    """Nothing to match but a shift."""
    image, palette = np.full((4, 5, 3), 10, dtype=np.uint8), np.full((3, 2, 3), 200, dtype=np.uint8)
    with within(10):
        np.testing.assert_array_equal(recolor(image, palette), np.full((4, 5, 3), 200))
        np.testing.assert_array_equal(recolor(image, palette, weight=0.1), np.full((4, 5, 3), 200))


@pytest.mark.usefixtures("coarse_table")
def test_one_pixel() -> None:
    with within(10):
        result = recolor(picture(1, 1), picture(3, 3, seed=1))
    mean = srgb_of(lab_of(picture(3, 3, seed=1) / 255.0).mean(axis=(0, 1)))
    np.testing.assert_allclose(result[0, 0] / 255.0, mean, atol=0.02)


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "floats beyond 1": (
        lambda: recolor(picture(4, 4) / 1.0, picture(4, 4)),
        r"image has floats outside 0 .. 1",
    ),
    "NaN": (
        lambda: recolor(picture(4, 4), np.full((3, 3), np.nan)),
        r"palette has floats outside 0 .. 1",
    ),
    "signed integers": (
        lambda: recolor(picture(4, 4).astype(int), picture(4, 4)),
        r"image must be.*got int64",
    ),
    "strength": (
        lambda: recolor(picture(4, 4), picture(4, 4), strength=1.5),
        r"strength must be from 0 to 1, got 1.5",
    ),
    "smooth": (
        lambda: recolor(picture(4, 4), picture(4, 4), smooth=-1.0),
        r"smooth must be finite and >= 0",
    ),
    "two channels": (
        lambda: recolor(picture(4, 4), picture(4, 4, 2)),
        r"palette must be.*\(4, 4, 2\)",
    ),
    "nothing": (lambda: recolor(picture(0, 4), picture(4, 4)), r"image must be.*\(0, 4, 3\)"),
    "one sample": (
        lambda: recolor(picture(4, 4), picture(4, 4), samples=1),
        r"samples must be >= 2, got 1",
    ),
    "negative entropy": (
        lambda: recolor(picture(4, 4), picture(4, 4), entropy=-1.0),
        r"entropy must be finite",
    ),
    "negative weight": (
        lambda: recolor(picture(4, 4), picture(4, 4), weight=-1.0),
        r"weight must be .*>= 0, got -1",
    ),
    "NaN weight": (
        lambda: recolor(picture(4, 4), picture(4, 4), weight=np.nan),
        r"weight must be finite",
    ),
}


@pytest.mark.parametrize(("make", "match"), BAD.values(), ids=BAD.keys())
def test_bad_pictures(make: Callable[[], Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make()
