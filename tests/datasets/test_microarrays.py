"""Colon and lymphoma: found in a folder, in the cache or in public; verified; never from the network in a test."""

from __future__ import annotations

import bz2
import hashlib
import http.client
import io
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from condgrad.datasets import (
    DataMismatch,
    DataUnavailable,
    Microarray,
    load_colon,
    load_lymphoma,
    public,
    store,
)
from condgrad.errors import install_command

Loader = Callable[..., Microarray]
REAL_FOLDER, IN_CI = os.environ.get("CONDGRAD_DATA"), bool(os.environ.get("CI"))
DOWNLOAD, OPENML = public.download, public.openml
SIZES = {
    "colon.npz": (62, 2000, 40),
    "lymphoma96.npz": (96, 4026, 66),
    "lymphoma62.npz": (62, 4026, 42),
}


def load_malignant(**options: Any) -> Microarray:
    return load_lymphoma(version="malignant", **options)


def load_dlbcl(**options: Any) -> Microarray:
    return load_lymphoma(version="dlbcl", **options)


LOADERS = {"colon.npz": load_colon, "lymphoma96.npz": load_malignant, "lymphoma62.npz": load_dlbcl}
EVERY_FILE = pytest.mark.parametrize("file", LOADERS)


def fake(file: str, seed: int = 0) -> dict[str, Any]:
    """Random data with the shape, the labels and the sign of the real ones."""
    samples, genes, positives = SIZES[file]
    rng = np.random.default_rng(seed)
    X = rng.lognormal(5.0, 1.0, (samples, genes)).astype(np.float32)
    X[:, 3] = 7.0
    return {
        "X": X,
        "y": rng.permutation(np.where(np.arange(samples) < positives, 1, -1)).astype(np.int8),
    }


def put(folder: Path, file: str, arrays: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a file and let its checksum be the known one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    np.savez_compressed(path, **arrays)
    monkeypatch.setitem(store.SHA256, file, hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def svmlight(X: Any, y: Any) -> bytes:
    """What the LIBSVM site sends."""
    buffer = io.BytesIO()
    sklearn.datasets.dump_svmlight_file(X, y, buffer, zero_based=False)
    return bz2.compress(buffer.getvalue())


def nine_classes(
    sizes: tuple[int, ...] = (46, 10, 9, 11, 6, 6, 4, 2, 2), seed: int = 0
) -> SimpleNamespace:
    """What scikit-learn makes of OpenML's answer: labels are strings."""
    rng = np.random.default_rng(seed)
    target = rng.permutation(np.repeat([f"class {k}" for k in range(len(sizes))], sizes)).astype(
        object
    )
    data = rng.standard_normal((len(target), 4026))
    return SimpleNamespace(
        data=data, target=target, feature_names=[f"gene{k}" for k in range(4026)]
    )


class Server:
    """A public source that counts its calls."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, []

    def __call__(self, address: str) -> Any:
        self.asked.append(address)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@EVERY_FILE
@pytest.mark.parametrize("place", ["named folder", "cache"])
def test_files_are_read_and_prepared(
    file: str, place: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays, folder = fake(file), cache
    if place == "named folder":
        folder = tmp_path / "mine"
        monkeypatch.setenv("CONDGRAD_DATA", str(folder))
    path = put(folder, file, arrays, monkeypatch)
    plain, scaled = LOADERS[file](standardize=False), LOADERS[file]()
    X = arrays["X"].astype(float)
    np.testing.assert_array_equal(plain.X, np.log10(X) if file == "colon.npz" else X)
    for data in (plain, scaled):
        np.testing.assert_array_equal(data.y, arrays["y"])
        assert data.X.dtype == data.y.dtype == np.float64
        assert data.feature_names is None
        assert data.source == str(path)
    varies = np.arange(X.shape[1]) != 3
    np.testing.assert_allclose(scaled.X.mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(scaled.X.std(axis=0), varies, rtol=1e-10)
    assert ("log10" in plain.description) == (file == "colon.npz")
    assert "scaled" in scaled.description
    assert "scaled" not in plain.description
    with pytest.raises(FrozenInstanceError):
        plain.X = None  # type: ignore[misc]


def test_the_named_folder_wins_and_the_cache_serves_what_it_lacks(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, "colon.npz", fake("colon.npz"), monkeypatch)
    monkeypatch.setenv("CONDGRAD_DATA", str(tmp_path / "mine"))
    assert load_colon().source == str(cache / "colon.npz")
    path = put(tmp_path / "mine", "colon.npz", fake("colon.npz", seed=1), monkeypatch)
    assert load_colon().source == str(path)


@EVERY_FILE
def test_a_wrong_file_is_an_error_even_where_another_copy_exists(
    file: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, file, fake(file), monkeypatch)
    wrong = tmp_path / "mine" / file
    wrong.parent.mkdir()
    wrong.write_bytes((cache / file).read_bytes()[:-100])
    monkeypatch.setenv("CONDGRAD_DATA", str(wrong.parent))
    with pytest.raises(DataMismatch) as caught:
        LOADERS[file]()
    for part in (str(wrong), store.SHA256[file], hashlib.sha256(wrong.read_bytes()).hexdigest()):
        assert part in str(caught.value)


def spoil_x(value: float) -> Callable[[dict[str, Any]], None]:
    """Put one bad value among the genes."""
    return lambda arrays: np.put(arrays["X"], 1, value)


@EVERY_FILE
@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda arrays: arrays.update(X=arrays["X"][:, 1:]), "must have X of shape"),
        (lambda arrays: arrays.update(y=arrays["y"][1:]), "labels, got"),
        (lambda arrays: arrays.update(y=-arrays["y"]), "labels +1 and"),
        (lambda arrays: arrays.update(y=arrays["y"] * 2), "got 0 and 0"),
        (
            lambda arrays: arrays.pop("y"),
            "must hold arrays of numbers X and y, got {'X': 'float32'}",
        ),
        (
            lambda arrays: arrays.update(y=np.full(len(arrays["y"]), "tumour")),
            "must hold arrays of numbers",
        ),
        (spoil_x(np.nan), "finite values in X"),
        (spoil_x(np.inf), "finite values in X"),
    ],
    ids=["genes", "samples", "sizes", "labels", "no y", "text", "nan", "inf"],
)
def test_contents_are_checked_too(
    file: str,
    spoil: Callable[[Any], Any],
    sentence: str,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrays = fake(file)
    spoil(arrays)
    path = put(cache, file, arrays, monkeypatch)
    with pytest.raises(DataMismatch) as caught:
        LOADERS[file]()
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_raw_intensities_must_be_positive(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = fake("colon.npz")
    arrays["X"][0, 0] = 0.0
    put(cache, "colon.npz", arrays, monkeypatch)
    with pytest.raises(DataMismatch, match="positive and finite"):
        load_colon()


@pytest.mark.parametrize("tumour", [-1, 1])
def test_colon_is_fetched_once_and_then_read_from_the_cache(
    tumour: int, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = fake("colon.npz")
    X = np.round(np.log10(arrays["X"].astype(float)) - 2.0, 6)
    server = Server(svmlight(X, tumour * arrays["y"]))
    monkeypatch.setattr(public, "download", server)
    first, again = load_colon(standardize=False), load_colon(standardize=False)
    assert server.asked == [public.COLON_URL]
    assert first.source == public.COLON_URL
    assert again.source == str(cache / "colon-libsvm.npz")
    for data in (first, again):
        np.testing.assert_allclose(data.X, X, atol=1e-12)
        np.testing.assert_array_equal(data.y, arrays["y"])
        assert "already normalised" in data.description
    assert sorted(path.name for path in cache.iterdir()) == [
        "colon-libsvm.npz",
        "colon-libsvm.npz.sha256",
    ]
    (cache / "colon-libsvm.npz").write_bytes(b"half")
    with pytest.raises(DataMismatch, match=r"colon-libsvm\.npz has sha256"):
        load_colon()


def test_lymphoma_is_fetched_once_and_then_read_from_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bunch = nine_classes()
    server = Server(bunch)
    monkeypatch.setattr(public, "openml", server)
    first, again = load_lymphoma(standardize=False), load_lymphoma(standardize=False)
    assert server.asked == ["lymphoma_9classes"]
    assert again.source == str(cache / "lymphoma96-openml.npz")
    for data in (first, again):
        np.testing.assert_array_equal(data.X, bunch.data)
        np.testing.assert_array_equal(
            data.y > 0, np.isin(bunch.target, ["class 0", "class 2", "class 3"])
        )
        assert data.feature_names == tuple(bunch.feature_names)


def text_genes() -> SimpleNamespace:
    bunch = nine_classes()
    return SimpleNamespace(**{**vars(bunch), "data": np.full((96, 4026), "?")})


def with_nan() -> SimpleNamespace:
    bunch = nine_classes()
    bunch.data[0, 0] = np.nan
    return bunch


COLON = fake("colon.npz")


@pytest.mark.parametrize(
    ("load", "answer", "sentence"),
    [
        (load_colon, b"<html>Sign in to the network</html>", "bzip2"),
        (load_colon, svmlight(COLON["X"], COLON["y"])[:-50], "bzip2"),
        (load_colon, bz2.compress(b"a table\n"), "svmlight"),
        (load_colon, bz2.compress(b""), "two classes"),
        (load_colon, svmlight(COLON["X"], np.arange(62)), "two classes"),
        (load_colon, svmlight(COLON["X"][:50], COLON["y"][:50]), "must have X of shape (62, 2000)"),
        (load_malignant, nine_classes((23, 22)), "one class each of (46, 9, 11) samples"),
        (load_malignant, nine_classes((46, 9, 11, 9, 21)), "'class 3': 9"),
        (load_malignant, nine_classes((46, 9, 11, 31)), "must have X of shape (96, 4026)"),
        (load_malignant, text_genes(), "numbers for features"),
        (load_malignant, with_nan(), "finite values"),
    ],
)
def test_a_wrong_download_is_an_error_and_is_not_kept(
    load: Loader, answer: Any, sentence: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in ("download", "openml"):
        monkeypatch.setattr(public, source, Server(answer))
    with pytest.raises(DataMismatch) as caught:
        load()
    assert sentence in str(caught.value)
    assert not cache.exists()


@pytest.mark.parametrize(
    "failure",
    [
        URLError("no route"),
        TimeoutError("no route"),
        http.client.IncompleteRead(b"no route"),
        ValueError("no route"),
    ],
)
@pytest.mark.parametrize("file", ["colon.npz", "lymphoma96.npz"])
def test_offline_is_one_clear_error(
    file: str, failure: Exception, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDGRAD_DATA", str(tmp_path / "mine"))
    for source in ("download", "openml"):
        monkeypatch.setattr(public, source, Server(failure))
    with pytest.raises(DataUnavailable) as caught:
        LOADERS[file]()
    address = public.COLON_URL if file == "colon.npz" else "OpenML lymphoma_9classes"
    fetched = "colon-libsvm.npz" if file == "colon.npz" else "lymphoma96-openml.npz"
    tried = [tmp_path / "mine" / file, tmp_path / "mine" / fetched, cache / file, cache / fetched]
    for part in [
        *map(str, tried),
        address,
        type(failure).__name__,
        "Set CONDGRAD_DATA",
        f"{fetched}.sha256",
    ]:
        assert part in str(caught.value)
    assert caught.value.__cause__ is failure
    assert isinstance(caught.value, OSError)
    assert not cache.exists()


@pytest.mark.parametrize("load", [load_colon, load_malignant])
def test_the_network_can_be_forbidden(load: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in ("download", "openml"):
        monkeypatch.setattr(public, source, Server(AssertionError("the network was used")))
    with pytest.raises(DataUnavailable, match="download_if_missing is off"):
        load(download_if_missing=False)


def test_the_remedy_for_dlbcl_works(cache: Path) -> None:
    """No public copy can be read, so the message says how to make the file; a file made so is accepted."""
    with pytest.raises(DataUnavailable) as caught:
        load_dlbcl()
    for part in (
        "CONDGRAD_DATA (not set)",
        "spls",
        str(cache / "lymphoma62.npz"),
        "sha256sum lymphoma62.npz >",
    ):
        assert part in str(caught.value)
    arrays, path = fake("lymphoma62.npz"), cache / "lymphoma62.npz"
    cache.mkdir(parents=True)
    np.savez_compressed(path, **arrays)
    (cache / "lymphoma62.npz.sha256").write_text(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  lymphoma62.npz\n"
    )
    np.testing.assert_array_equal(load_dlbcl().y, arrays["y"])


def test_a_cache_that_cannot_be_written_costs_a_warning_only(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache.parent.write_text("a file where the folder should be")
    monkeypatch.setattr(public, "openml", Server(nine_classes()))
    with caplog.at_level(logging.WARNING, logger="condgrad"):
        assert load_lymphoma().X.shape == (96, 4026)
    assert str(cache / "lymphoma96-openml.npz") in caplog.text


def test_version_is_checked() -> None:
    with pytest.raises(ValueError, match='version must be "malignant" or "dlbcl", got 96'):
        load_lymphoma(version=96)  # type: ignore[arg-type]


class Pages(BaseHTTPRequestHandler):
    """A site with one page."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/page" else 404)
        self.end_headers()
        self.wfile.write(b"\x00\xff content")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_download_reads_what_is_behind_an_address() -> None:
    with HTTPServer(("127.0.0.1", 0), Pages) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{site.server_port}"
        assert DOWNLOAD(f"{address}/page") == b"\x00\xff content"
        with pytest.raises(OSError, match="404"):
            DOWNLOAD(f"{address}/nothing")
        site.shutdown()


@pytest.mark.parametrize("missing", ["pooch", "platformdirs"])
def test_without_the_extra_the_named_folder_is_read_and_else_a_sentence_says_what_to_install(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(public, "download", DOWNLOAD)
    with pytest.raises(DataUnavailable) as caught:
        load_colon()
    assert f"needs {missing}, which is not installed: {install_command('data')}" in str(
        caught.value
    )
    monkeypatch.setenv("CONDGRAD_DATA", str(tmp_path / "mine"))
    path = put(tmp_path / "mine", "colon.npz", fake("colon.npz"), monkeypatch)
    assert load_colon().source == str(path)


def test_scikit_learn_offline_gives_our_error_and_no_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The real call to OpenML, with the socket taken away below it; scikit-learn warns before it tries again."""
    server = Server(URLError("no route"))
    monkeypatch.setattr(public, "openml", OPENML)
    monkeypatch.setattr(
        "sklearn.datasets._openml.urlopen", lambda request, **_: server(request.full_url)
    )
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "sklearn"))
    with pytest.raises(DataUnavailable, match="no route"):
        load_lymphoma()
    assert len(server.asked) == 2
    assert "lymphoma_9classes" in server.asked[0]
    assert not (tmp_path / "sklearn").exists()


@EVERY_FILE
def test_real_files_where_they_are_named(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI names the folder of the real files; where nobody does, the loader must say how to."""
    assert REAL_FOLDER or not IN_CI, "CI must set CONDGRAD_DATA"
    if not REAL_FOLDER:
        with pytest.raises(
            DataUnavailable, match="Set CONDGRAD_DATA to a folder that holds " + file
        ):
            LOADERS[file]()
        return
    monkeypatch.setenv("CONDGRAD_DATA", REAL_FOLDER)
    data = LOADERS[file]()
    samples, genes, positives = SIZES[file]
    assert data.source == str(Path(REAL_FOLDER) / file)
    assert data.X.shape == (samples, genes)
    assert (data.y == 1.0).sum() == positives
    # labels that belong to other samples could not be learned
    judge = cross_val_score(LogisticRegression(C=0.01, max_iter=1000), data.X, data.y, cv=5)
    assert judge.mean() > 0.8
