"""`condgrad bench` through its entry point: the list, a run, and what cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from condgrad.cli.bench import benchmarks, purpose
from tests.cli.conftest import Command


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package folder whose benchmarks a test may write."""
    folder = tmp_path / "package" / "benchmarks"
    folder.mkdir(parents=True)
    monkeypatch.setattr("condgrad.cli.bench.files", lambda _: tmp_path / "package")
    return folder


def write(folder: Path, name: str, body: str) -> None:
    text = f'"""What {name} measures [s].\n\nMore."""\nimport os, signal, sys\nif __name__ == "__main__":\n    {body}\n'
    (folder / f"{name}.py").write_text(text, "utf-8")


def test_the_list_has_every_benchmark_with_its_purpose(condgrad_here: Command) -> None:
    ended = condgrad_here("bench")
    assert ended.code == 0
    assert max(map(len, ended.stdout.splitlines())) <= 80
    words = " ".join(ended.stdout.split())
    for name, script in benchmarks().items():
        assert f"{name} {purpose(script)}" in words
    assert {"elastic_net", "overhead", "transport"} <= benchmarks().keys()
    assert "elastic_net_peers" not in ended.stdout


def test_arguments_after_two_dashes_reach_a_real_benchmark(condgrad: Command) -> None:
    ended = condgrad("bench", "newton-grid", "--", "--help")
    assert ended.code == 0
    assert "--time-limit" in ended.stdout


@pytest.mark.parametrize("name", ["nothing", "elastic_net_peers", "../conftest", ""])
def test_an_unknown_name_is_bad_input(name: str, condgrad_here: Command) -> None:
    ended = condgrad_here("bench", name)
    assert ended.code == 2
    assert ended.stderr.startswith(f"condgrad: no benchmark {name!r}: there are elastic_net, ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(("body", "code"), [("sys.exit(7)", 7), ("sys.exit(0)", 0), ("os.kill(os.getpid(), 15)", 143)])
def test_the_exit_code_is_that_of_the_script(body: str, code: int, condgrad_here: Command, scripts: Path) -> None:
    write(scripts, "mine", body)
    assert condgrad_here("bench", "mine").code == code


def test_arguments_are_passed_as_they_are(condgrad_here: Command, scripts: Path) -> None:
    write(scripts, "mine", "sys.exit(sys.argv[1:] != ['--n', '5', 'a b', '--', '-x'])")
    assert condgrad_here("bench", "mine", "--", "--n", 5, "a b", "--", "-x").code == 0


def test_those_of_the_wheel_come_first_and_brackets_are_no_markup(condgrad_here: Command, scripts: Path) -> None:
    write(scripts, "mine", "pass")
    (scripts / "helper.py").write_text('"""No benchmark."""\n', "utf-8")
    ended = condgrad_here("bench")
    assert "mine  What mine measures [s]." in ended.stdout
    assert "helper" not in ended.stdout


@pytest.mark.usefixtures("scripts")
def test_an_installation_without_benchmarks_says_so(condgrad_here: Command) -> None:
    ended = condgrad_here("bench")
    assert ended.code == 2
    assert "no benchmarks are installed" in ended.stderr
