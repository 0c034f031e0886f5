"""Reading what users write under `dependencies`."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.environment.dependencies import Dependency, Kind, expand, parse, variables, without_credentials
from airlane.errors import EnvironmentBuildError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the workload's file is: a name that needs quoting everywhere."""
    found = tmp_path / 'it\'s a "wörk" folder\nwith a newline'
    found.mkdir()
    return found


def one(line: str, folder: Path) -> Dependency:
    (found,) = parse([line], base_dir=folder)
    return found


@pytest.mark.parametrize(
    ("written", "text", "name"),
    [
        ("requests", "requests", "requests"),
        ("  Fsspec >= 2024.6.1 ", "fsspec>=2024.6.1", "fsspec"),
        ("ray[train, tune]==2.60.0", "ray[train,tune]==2.60.0", "ray"),
        ("A_b.c<2 , >=1", "a-b-c<2,>=1", "a-b-c"),
        ("x~=1.4.2", "x~=1.4.2", "x"),
        ("x===1.0+local", "x===1.0+local", "x"),
        ("x==1.*", "x==1.*", "x"),
        ("x (>=1,<2)", "x<2,>=1", "x"),
        ("x>=1; python_version  < '3.12'", "x>=1 ; python_version < '3.12'", "x"),
        ("x  # a comment", "x", "x"),
    ],
)
def test_a_requirement_is_normalized(written: str, text: str, name: str, folder: Path) -> None:
    found = one(written, folder)
    assert (found.kind, found.text, found.name) == (Kind.REQUIREMENT, text, name)
    assert found.identity == text


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("git+https://host.example/team/repo.git@main", None),
        ("git+ssh://git@host.example/repo#egg=My_Lib", "my-lib"),
        ("https://host.example/Demo_Pkg-1.0-py3-none-any.whl", "demo-pkg"),
        ("demo @ https://host.example/x.zip", "demo"),
        ("demo@git+https://host.example/x", "demo"),
    ],
)
def test_a_link_keeps_its_text_and_tells_its_name_where_it_can(written: str, name: str | None, folder: Path) -> None:
    found = one(written, folder)
    assert (found.kind, found.name) == (Kind.LINK, name)


@pytest.mark.parametrize("written", ["", "   ", "# only a comment"])
def test_an_empty_item_is_nothing(written: str, folder: Path) -> None:
    assert parse([written], base_dir=folder) == ()


@pytest.mark.parametrize("written", ["demo-1-py3-none-any.whl", "./demo-1-py3-none-any.whl", "demo @ {uri}", "{path}"])
def test_a_wheel_is_known_by_its_content_wherever_it_lies(written: str, folder: Path) -> None:
    wheel = folder / "demo-1-py3-none-any.whl"
    wheel.write_bytes(b"first")
    line = written.format(uri=wheel.as_uri(), path=wheel) if "path" not in written else "./demo-1-py3-none-any.whl"
    first = one(line, folder)
    wheel.write_bytes(b"second")
    assert (first.kind, first.name, first.text) == (Kind.ARCHIVE, "demo", str(wheel))
    assert first.identity != one(line, folder).identity
    assert str(folder) not in first.identity
    assert expand(first, {}) == f"demo @ {wheel.as_uri()}"


def test_a_wheel_behind_a_variable_counts_by_its_text(folder: Path) -> None:
    found = one("$WHEELS/demo-1-py3-none-any.whl", folder)
    assert found.identity == "$WHEELS/demo-1-py3-none-any.whl"
    assert expand(found, {"WHEELS": "/my wheels"}) == "demo @ file:///my%20wheels/demo-1-py3-none-any.whl"
    assert expand(found, {"WHEELS": "https://h/w"}) == "https://h/w/demo-1-py3-none-any.whl"


def test_a_variable_may_say_where_a_requirements_file_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "more.txt").write_text("six==1.16.0\n")
    with pytest.raises(EnvironmentBuildError, match=r"\$REQUIREMENTS is not set"):
        parse(["-r $REQUIREMENTS/more.txt"], base_dir=folder)
    monkeypatch.setenv("REQUIREMENTS", str(folder))
    assert one("-r $REQUIREMENTS/more.txt", folder).text == "six==1.16.0"


def test_a_requirements_file_is_read_whole_with_its_own_folder(folder: Path) -> None:
    (folder / "sub dir").mkdir()
    (folder / "reqs.txt").write_text(
        "\ufeff# top\nrequests>=2 \\\n  ,<3\n\n-r sub dir/more.txt\n-c limits.txt\n--extra-index-url=https://a.example\n",
        encoding="utf-8",
    )
    (folder / "sub dir/more.txt").write_text("./demo-1.tar.gz\n", encoding="utf-8")
    (folder / "sub dir/demo-1.tar.gz").write_bytes(b"x")
    (folder / "limits.txt").write_text("numpy<2\n", encoding="utf-8")
    found = parse(["-r reqs.txt"], base_dir=folder)
    assert [item.kind for item in found] == [Kind.REQUIREMENT, Kind.ARCHIVE, Kind.CONSTRAINT, Kind.OPTION]
    assert found[0].text == "requests<3,>=2"
    assert found[0].origin == "reqs.txt:3"
    assert found[2].identity == "constraint numpy<2"
    assert (found[3].flag, found[3].text) == ("--extra-index-url", "https://a.example")


@pytest.mark.parametrize(
    ("written", "flag", "value"),
    [
        ("--index-url https://a", "--index-url", "https://a"),
        ("-i https://a", "--index-url", "https://a"),
        ("--find-links='https://a b'", "--find-links", "https://a b"),
        ("--trusted-host h:80", "--trusted-host", "h:80"),
        ("--no-index", "--no-index", ""),
        ("--pre", "--pre", ""),
        ("--index-url https://$USER_NAME:${TOKEN}@a", "--index-url", "https://$USER_NAME:${TOKEN}@a"),
    ],
)
def test_index_options_are_understood(written: str, flag: str, value: str, folder: Path) -> None:
    found = one(written, folder)
    assert (found.kind, found.flag, found.text) == (Kind.OPTION, flag, value)


def test_a_relative_find_links_folder_belongs_to_the_file(folder: Path) -> None:
    assert one("-f wheels", folder).text == str(folder / "wheels")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("two words", r"dependencies\[0\]: expected a requirement such as"),
        ("x>1>2", "expected a requirement"),
        ("-e .", "an editable install would change"),
        ("--editable=./x", "an editable install would change"),
        ("--user", "the option --user is not supported"),
        ("-x", "the option -x is not supported"),
        ("--index-url", "--index-url needs a value"),
        ("x==1 --hash=sha256:0", "options after a requirement are not supported"),
        ("./missing.whl", r"(?s)cannot read .*missing\.whl: No such file"),
        ("-r missing.txt", r"(?s)cannot read .*missing\.txt: No such file"),
        ("./", "is a folder"),
    ],
)
def test_what_cannot_be_installed_is_refused_with_its_place(written: str, message: str, folder: Path) -> None:
    with pytest.raises(EnvironmentBuildError, match=message):
        parse([written], base_dir=folder)


def test_an_error_shows_no_password(folder: Path) -> None:
    with pytest.raises(EnvironmentBuildError) as caught:
        parse(["what is https://me:secret@host"], base_dir=folder)
    assert "secret" not in str(caught.value)


def test_a_file_that_includes_itself_is_refused(folder: Path) -> None:
    (folder / "a.txt").write_text("-r a.txt\n", encoding="utf-8")
    with pytest.raises(EnvironmentBuildError, match="includes itself"):
        parse(["-r a.txt"], base_dir=folder)


def test_variables_are_found_and_replaced() -> None:
    item = Dependency(Kind.OPTION, "https://$A:${B_2}@h/$A", "", "dependencies[1]")
    assert variables(item.text) == ("A", "B_2", "A")
    assert expand(item, {"A": "$B_2", "B_2": "two"}) == "https://$B_2:two@h/$B_2"


def test_an_unset_variable_is_named_and_no_value_is_shown() -> None:
    item = Dependency(Kind.OPTION, "https://$A:$MISSING@h", "", "dependencies[1]")
    with pytest.raises(EnvironmentBuildError, match=r"dependencies\[1\]: \$MISSING is not set") as caught:
        expand(item, {"A": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "exact"),
    [
        ("x==1", True),
        ("x==1.*", False),
        ("x>=1", False),
        ("x==1,<2", True),
        ("x===1", True),
        ("x==1 ; a == 'b'", True),
    ],
)
def test_an_exact_requirement_leaves_no_choice(line: str, exact: bool, folder: Path) -> None:
    assert one(line, folder).exact is exact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pw@h/x", "https://***@h/x"),
        ("git+https://token@h/x", "git+https://***@h/x"),
        ("git+ssh://git@h/x", "git+ssh://git@h/x"),
        ("pkg @ https://h/x@v1", "pkg @ https://h/x@v1"),
    ],
)
def test_credentials_in_urls_are_hidden(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
