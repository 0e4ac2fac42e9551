"""`condgrad recolor` through its entry point: real image files of every kind, good and bad."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from condgrad.cli.recolor import read_image
from condgrad.cli.report import BadInput
from condgrad.transport import recolor
from tests.cli.conftest import Command

pytestmark = pytest.mark.usefixtures("coarse_table")
rng = np.random.default_rng(0)
DARK = rng.integers(0, 90, (24, 30, 3), dtype=np.uint8)
BRIGHT = rng.integers((160, 100, 40), (250, 190, 130), (20, 20, 3), dtype=np.uint8)


@pytest.fixture
def pictures(tmp_path: Path) -> None:
    """A dark image and a bright palette."""
    Image.fromarray(DARK).save(tmp_path / "dark.png")
    Image.fromarray(BRIGHT).save(tmp_path / "bright.png")


def pixels(path: Path) -> Any:
    with Image.open(path) as image:
        return np.asarray(image)


@pytest.mark.usefixtures("drawn")
@pytest.mark.usefixtures("pictures")
def test_colours_become_those_of_the_palette(condgrad_here: Command, tmp_path: Path) -> None:
    done = condgrad_here("recolor", "dark.png", "bright.png", "--compare")
    assert done.code == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("Certified: the plan between the colours is within ")
    result = pixels(tmp_path / "dark-recolored.png")
    assert result.shape == DARK.shape
    np.testing.assert_allclose(result.mean(axis=(0, 1)), BRIGHT.mean(axis=(0, 1)), atol=6.0)
    np.testing.assert_allclose(result.std(axis=(0, 1)), BRIGHT.std(axis=(0, 1)), rtol=0.35)
    np.testing.assert_array_equal(result, recolor(DARK, BRIGHT))
    assert pixels(tmp_path / "dark-recolored-compare.png").shape[1] == 1800
    np.testing.assert_array_equal(pixels(tmp_path / "dark.png"), DARK)


@pytest.mark.usefixtures("pictures")
def test_the_certificate_in_json(condgrad_here: Command, tmp_path: Path) -> None:
    """A loose answer and a tight one prove bounds on one optimum; options arrive where they should."""
    asked = (
        "dark.png",
        "bright.png",
        "--samples",
        50,
        "--entropy",
        0.01,
        "--laplacian",
        1,
        "--seed",
        3,
        "--json",
    )
    loose, tight = (
        json.loads(condgrad_here("recolor", *asked, "--tol", tol, "--out", "out.webp").stdout)
        for tol in (1e-2, 1e-8)
    )
    assert loose["lower_bound"] <= tight["value"] + 1e-12
    assert tight["lower_bound"] <= loose["value"] + 1e-12
    assert tight["gap"] <= 1e-8 * max(1.0, abs(tight["value"]))
    assert tight["files"] == ["out.webp"]
    assert (tight["width"], tight["height"], tight["transparent"]) == (30, 24, False)
    expected = recolor(DARK, BRIGHT, samples=50, entropy=0.01, weight=1.0, seed=3, tol=1e-8)
    np.testing.assert_array_equal(pixels(tmp_path / "out.webp"), expected)


@pytest.mark.usefixtures("pictures")
def test_not_converged(condgrad_here: Command, tmp_path: Path) -> None:
    done = condgrad_here("recolor", "dark.png", "bright.png", "--tol", 0, "--samples", 20)
    assert done.code == 3
    assert done.stdout.startswith("Not converged: the certified gap / scale of F is ")
    assert (tmp_path / "dark-recolored.png").exists()


@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize("ending", [".png", ".webp", ".tif"])
def test_opacity_is_kept(condgrad_here: Command, tmp_path: Path, ending: str) -> None:
    opacity = rng.integers(1, 256, (24, 30, 1), dtype=np.uint8)
    Image.fromarray(np.concatenate([DARK, opacity], axis=2)).save(tmp_path / "glass.png")
    assert condgrad_here("recolor", "glass.png", "bright.png", "--out", f"out{ending}").code == 0
    np.testing.assert_array_equal(pixels(tmp_path / f"out{ending}")[..., 3:], opacity)


def test_what_nobody_sees_is_not_sampled() -> None:
    """White hidden under full transparency, around a dark image, takes no part of the palette."""
    hidden = np.full((200, 30, 4), 255, dtype=np.uint8)
    hidden[..., 3] = 0
    seen = np.concatenate([DARK, np.full((24, 30, 1), 255, dtype=np.uint8)], axis=2)
    painted = recolor(np.concatenate([hidden, seen]), BRIGHT, samples=300)
    np.testing.assert_allclose(
        painted[200:, :, :3].mean(axis=(0, 1)), BRIGHT.mean(axis=(0, 1)), atol=6.0
    )
    np.testing.assert_array_equal(painted[:200, :, 3], 0)


def test_an_image_of_many_blocks_is_repainted_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = recolor(DARK, BRIGHT, samples=40)
    monkeypatch.setattr("condgrad.transport.color.PIXELS_TOGETHER", 70)
    np.testing.assert_array_equal(recolor(DARK, BRIGHT, samples=40), whole)


# --- what files can hold ---


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I", "F", "LAB"]
)
def test_every_mode_becomes_bytes(tmp_path: Path, mode: str) -> None:
    """As Pillow shows it, judged through the mode's own conversion."""
    gray = rng.integers(0, 256, (7, 9), dtype=np.uint8)
    if mode in ("I;16", "I", "F"):
        values = {
            "I;16": gray.astype(np.uint16) * 257,
            "I": gray.astype(np.int32) * 257,
            "F": gray / np.float32(255),
        }
        image, expected = Image.fromarray(values[mode]), np.repeat(gray[..., None], 3, axis=2)
    else:
        image = Image.fromarray(rng.integers(0, 256, (7, 9, 3), dtype=np.uint8)).convert(mode)
        expected = np.asarray(image.convert("RGB"))
    path = tmp_path / "image.tif"
    image.save(path)
    np.testing.assert_array_equal(read_image(path), expected)


def test_transparent_colours_of_a_palette(tmp_path: Path) -> None:
    image = Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3) % 3)
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    image.save(tmp_path / "p.png", transparency=1)
    read = read_image(tmp_path / "p.png")
    np.testing.assert_array_equal(read[0], [[10, 20, 30, 255], [40, 50, 60, 0], [70, 80, 90, 255]])


@pytest.mark.parametrize("turned", range(1, 9))
def test_orientation_is_respected(tmp_path: Path, turned: int) -> None:
    """A camera's note that the picture lies on its side: a white corner ends where viewers show it."""
    image = np.zeros((16, 32, 3), dtype=np.uint8)
    image[:8, :8] = 255
    exif = Image.Exif()
    exif[0x0112] = turned
    Image.fromarray(image).save(tmp_path / "camera.jpg", exif=exif, quality=95)
    corner = {
        1: (0, 0),
        2: (0, -1),
        3: (-1, -1),
        4: (-1, 0),
        5: (0, 0),
        6: (0, -1),
        7: (-1, -1),
        8: (-1, 0),
    }[turned]
    read = read_image(tmp_path / "camera.jpg")
    assert read.shape == ((16, 32, 3) if turned < 5 else (32, 16, 3))
    assert read[corner].min() > 200
    assert read.mean() < 60


def test_colours_of_another_profile_become_standard_ones(tmp_path: Path) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.fromarray(DARK).save(tmp_path / "same.png", icc_profile=profile)
    assert abs(read_image(tmp_path / "same.png").astype(int) - DARK).max() <= 1
    Image.fromarray(DARK).save(tmp_path / "broken.png", icc_profile=b"no profile at all")
    np.testing.assert_array_equal(read_image(tmp_path / "broken.png"), DARK)


def test_a_colour_profile_is_kept(condgrad_here: Command, tmp_path: Path) -> None:
    """sRGB with red and green exchanged: the file is as before but for these two channels, and so is the result."""
    plain = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exchanged = plain.replace(b"rXYZ", b"????").replace(b"gXYZ", b"rXYZ").replace(b"????", b"gXYZ")
    opacity = rng.integers(1, 256, (24, 30, 1), dtype=np.uint8)
    glass = np.concatenate([DARK, opacity], axis=2)
    Image.fromarray(BRIGHT).save(tmp_path / "bright.png")
    Image.fromarray(glass[..., [1, 0, 2, 3]]).save(tmp_path / "glass.png", icc_profile=exchanged)
    assert condgrad_here("recolor", "glass.png", "bright.png", "--out", "out.png").code == 0
    with Image.open(tmp_path / "out.png") as image:
        assert image.info["icc_profile"] == exchanged
    shown = pixels(tmp_path / "out.png")[..., [1, 0, 2, 3]].astype(int)
    assert abs(shown - recolor(glass, BRIGHT)).max() <= 8
    np.testing.assert_array_equal(shown[..., 3:], opacity)


def test_sixteen_bits_are_said(condgrad_here: Command, tmp_path: Path) -> None:
    Image.fromarray(BRIGHT).save(tmp_path / "bright.png")
    Image.fromarray(DARK[..., 0].astype(np.uint16) * 257).save(tmp_path / "deep.png")
    done = condgrad_here("recolor", "deep.png", "bright.png")
    assert done.code == 0
    assert "deep.png has 16 bits a channel: the upper 8 are read" in done.stderr


@pytest.mark.usefixtures("pictures")
def test_smooth_and_strength(condgrad_here: Command, tmp_path: Path) -> None:
    asked = ("--smooth", 3, "--strength", 0.5, "--out", "out.png", "--json")
    done = condgrad_here("recolor", "dark.png", "bright.png", *asked)
    settings = json.loads(done.stdout)["settings"]
    assert (settings["smooth"], settings["strength"]) == (3.0, 0.5)
    assert settings["entropy"] > 0.0
    np.testing.assert_array_equal(
        pixels(tmp_path / "out.png"), recolor(DARK, BRIGHT, smooth=3.0, strength=0.5)
    )


def test_one_pixel_and_one_colour(condgrad_here: Command, tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), (10, 20, 30)).save(tmp_path / "dot.png")
    Image.new("L", (5, 4), 200).save(tmp_path / "gray.png")
    assert condgrad_here("recolor", "gray.png", "dot.png").code == 0
    assert (pixels(tmp_path / "gray-recolored.png") == [10, 20, 30]).all()


@pytest.mark.usefixtures("pictures")
def test_of_an_animation_the_first_frame_is_taken_and_this_is_said(
    condgrad_here: Command, tmp_path: Path
) -> None:
    frames = [Image.fromarray(BRIGHT), Image.fromarray(DARK[:20, :20])]
    frames[0].save(tmp_path / "moves.gif", save_all=True, append_images=frames[1:])
    done = condgrad_here("recolor", "dark.png", "moves.gif", "--out", "folder")
    assert done.code == 0
    assert done.stderr == "condgrad: moves.gif has 2 frames: the first is taken\n"
    result = pixels(tmp_path / "folder" / "dark-recolored.png")
    np.testing.assert_allclose(result.mean(axis=(0, 1)), BRIGHT.mean(axis=(0, 1)), atol=8.0)


# --- mistakes ---


def png(width: int, height: int) -> bytes:
    """The head of a PNG file that claims a size, and next to nothing behind it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(100)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("none.png bright.png", "none.png does not exist"),
        ("dark.png .", ". is a folder"),
        ("empty.png bright.png", "empty.png is empty"),
        ("text.png bright.png", "text.png is not an image"),
        ("dark.png garbage.jpg", "garbage.jpg is not an image"),
        ("cut.png bright.png", "cut.png is damaged"),
        ("bomb.png bright.png", "bomb.png claims more than 178 million pixels"),
        ("deep.tif bright.png", "deep.tif has gray values outside 0 .. 65535"),
        ("dark.png bright.png --out dark.png", "--out dark.png would overwrite dark.png"),
        ("dark.png bright.png --out link.png", "--out link.png would overwrite bright.png"),
        ("dark.png bright.png --out folder.png", "--out folder.png is a folder"),
        ("dark.png bright.png --out dark.xyz", "--out dark.xyz ends in '.xyz'"),
        ("dark.png bright.png --out text.png/out.png", "text.png is a file"),
        ("glass.png bright.png --out glass.jpg", "cannot be transparent"),
        ("dark.png bright.png --entropy nan", "--entropy must be finite and >= 0"),
        ("dark.png bright.png --laplacian -1", "--laplacian must be finite and >= 0"),
        ("dark.png bright.png --samples 1", "--samples"),
        ("dark.png bright.png --samples 10000000", "ask for fewer --samples"),
        ("dark.png bright.png --seed -1", "--seed"),
        ("dark.png bright.png --smooth -1", "--smooth must be finite and >= 0"),
        ("dark.png bright.png --strength 2", "--strength must be from 0 to 1, got 2"),
        ("dark.png", "PALETTE"),
    ],
)
def test_mistakes(condgrad_here: Command, tmp_path: Path, arguments: str, said: str) -> None:
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "garbage.jpg").write_bytes(bytes(range(256)))
    (tmp_path / "cut.png").write_bytes((tmp_path / "dark.png").read_bytes()[:900])
    (tmp_path / "bomb.png").write_bytes(png(100_000, 100_000))
    Image.fromarray(np.full((3, 3), 1 << 20, dtype=np.int32)).save(tmp_path / "deep.tif")
    Image.new("RGBA", (4, 4), (1, 2, 3, 100)).save(tmp_path / "glass.png")
    (tmp_path / "link.png").symlink_to("bright.png")
    (tmp_path / "folder.png").mkdir()
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    done = condgrad_here("recolor", *arguments.split())
    assert done.code == 2
    assert said in done.stderr
    assert done.stdout == ""
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_an_image_larger_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "large.png").write_bytes(png(10_000, 9_000))
    monkeypatch.setattr("condgrad.cli.files.free_memory", lambda: 1_000_000_000)
    with pytest.raises(
        BadInput,
        match=r"10,000 x 9,000 pixels, would need about 2.2 GB of memory, and 1.0 GB are free",
    ):
        read_image(tmp_path / "large.png")
