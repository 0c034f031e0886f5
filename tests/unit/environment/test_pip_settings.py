"""What pip is configured to do, and how uv is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airlane.environment.pip_settings import PipSettings, config_files, read, uv_variables

REPOSITORY = Path(__file__).resolve().parents[3]


class Machine:
    """A machine with pip configuration files, below a folder whose name needs quoting."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home/å user"
        self.venv = root / "venv"
        self.environ = {"HOME": str(self.home)}
        self.home.mkdir(parents=True)

    def write(self, where: str, text: str) -> Path:
        places = {
            "global": self.root / "etc/pip.conf",
            "xdg": self.root / "etc/xdg/pip/pip.conf",
            "user": self.home / ".config/pip/pip.conf",
            "legacy": self.home / ".pip/pip.conf",
            "site": self.venv / "pip.conf",
            "named": self.root / "named.conf",
        }
        path = places[where]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def read(self, **environ: str) -> PipSettings:
        return read({**self.environ, **environ}, prefix=self.venv, system="linux", root=self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "it's a machine")


def index(name: str, section: str = "global") -> str:
    return f"[{section}]\nindex-url = https://{name}.example/simple\n"


def test_nothing_configured_says_nothing(machine: Machine) -> None:
    assert machine.read() == PipSettings()
    assert uv_variables(machine.read(), machine.environ) == {}


@pytest.mark.parametrize(
    ("weaker", "stronger"), [("xdg", "global"), ("global", "legacy"), ("legacy", "user"), ("user", "site")]
)
def test_a_file_nearer_to_the_user_wins(machine: Machine, weaker: str, stronger: str) -> None:
    machine.write(weaker, index(weaker))
    machine.write(stronger, index(stronger))
    assert machine.read().index_url == f"https://{stronger}.example/simple"


def test_the_named_file_wins_over_the_site_and_hides_the_users(machine: Machine) -> None:
    machine.write("site", index("site"))
    machine.write("user", "[global]\nfind-links = /user/wheels\n")
    named = machine.write("named", index("named"))
    settings = machine.read(PIP_CONFIG_FILE=str(named))
    assert settings.index_url == "https://named.example/simple"
    assert settings.find_links == ()


def test_the_null_device_as_named_file_hides_all_files(machine: Machine) -> None:
    machine.write("user", index("user"))
    assert machine.read(PIP_CONFIG_FILE=os.devnull) == PipSettings()


def test_the_environment_wins_over_every_file(machine: Machine) -> None:
    machine.write("site", index("site", section="install"))
    assert machine.read(PIP_INDEX_URL="https://env.example").index_url == "https://env.example"


def test_an_empty_variable_counts_as_unset(machine: Machine) -> None:
    machine.write("user", index("user"))
    assert machine.read(PIP_INDEX_URL="").index_url == "https://user.example/simple"


def test_the_install_section_wins_over_global_in_a_nearer_file(machine: Machine) -> None:
    machine.write("global", index("install", section="install"))
    machine.write("user", index("user"))
    assert machine.read().index_url == "https://install.example/simple"


def test_other_sections_and_broken_files_are_passed_over(machine: Machine) -> None:
    machine.write("global", index("download", section="download"))
    machine.write("user", "this is not a section\n= ?")
    assert machine.read() == PipSettings()


def test_the_active_virtual_environment_is_the_site(machine: Machine) -> None:
    active = machine.root / "active"
    active.mkdir()
    (active / "pip.conf").write_text(index("active"), encoding="utf-8")
    assert machine.read(VIRTUAL_ENV=str(active)).index_url == "https://active.example/simple"


def test_values_with_several_words_keep_their_order(machine: Machine) -> None:
    machine.write("user", "[global]\nextra_index_url =\n    https://a.example\n    https://b.example\n")
    assert machine.read().extra_index_urls == ("https://a.example", "https://b.example")


def test_paths_become_absolute_and_the_home_is_expanded(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    settings = machine.read(PIP_FIND_LINKS="~/wheels near https://far.example/wheels")
    assert settings.find_links == ("/home/someone/wheels", str(tmp_path / "near"), "https://far.example/wheels")


def test_macos_keeps_its_files_in_the_library(machine: Machine) -> None:
    (machine.home / "Library/Application Support/pip").mkdir(parents=True)
    files = config_files(machine.environ, prefix=machine.venv, system="darwin", root=machine.root)
    assert machine.root / "Library/Application Support/pip/pip.conf" == files[0]
    assert machine.home / "Library/Application Support/pip/pip.conf" in files


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (PipSettings(index_url="https://u:p@a.example"), {"UV_DEFAULT_INDEX": "https://u:p@a.example"}),
        (
            PipSettings(extra_index_urls=("file:///a", "https://b")),
            {"UV_INDEX": "file:///a https://b", "UV_INDEX_STRATEGY": "unsafe-best-match"},
        ),
        (PipSettings(find_links=("/my wheels", "https://b")), {"UV_FIND_LINKS": "/my wheels,https://b"}),
        (PipSettings(trusted_hosts=("a:8080", "b")), {"UV_INSECURE_HOST": "a:8080 b"}),
        (PipSettings(cert="/certs/ca.pem"), {"SSL_CERT_FILE": "/certs/ca.pem"}),
        (PipSettings(cert="/"), {"SSL_CERT_DIR": "/"}),
        (PipSettings(client_cert="/me.pem"), {"SSL_CLIENT_CERT": "/me.pem"}),
        (PipSettings(timeout_s="180"), {"UV_HTTP_TIMEOUT": "180"}),
        (PipSettings(timeout_s="7.5"), {"UV_HTTP_TIMEOUT": "7"}),
        (PipSettings(proxy="h:3128"), {"HTTP_PROXY": "http://h:3128", "HTTPS_PROXY": "http://h:3128"}),
        (PipSettings(pre=True), {"UV_PRERELEASE": "allow"}),
        (PipSettings(constraints=("/c.txt",), no_index=True), {}),
    ],
)
def test_each_setting_has_its_name_in_uv(settings: PipSettings, expected: dict[str, str], tmp_path: Path) -> None:
    assert uv_variables(settings, {"HOME": str(tmp_path)}) == expected


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        (PipSettings(index_url="https://a"), "UV_DEFAULT_INDEX"),
        (PipSettings(index_url="https://a"), "UV_INDEX_URL"),
        (PipSettings(extra_index_urls=("https://a",)), "UV_INDEX"),
        (PipSettings(extra_index_urls=("https://a",)), "UV_EXTRA_INDEX_URL"),
        (PipSettings(find_links=("/a",)), "UV_FIND_LINKS"),
        (PipSettings(trusted_hosts=("a",)), "UV_INSECURE_HOST"),
        (PipSettings(cert="/a"), "SSL_CERT_FILE"),
        (PipSettings(timeout_s="9"), "UV_HTTP_TIMEOUT"),
        (PipSettings(proxy="http://a"), "https_proxy"),
        (PipSettings(pre=True), "UV_PRERELEASE"),
    ],
)
def test_what_the_user_told_uv_is_left_alone(settings: PipSettings, own: str, tmp_path: Path) -> None:
    assert uv_variables(settings, {"HOME": str(tmp_path), own: "mine"}) == {}


def test_a_uv_toml_with_indexes_silences_pips(tmp_path: Path) -> None:
    settings = PipSettings(index_url="https://a", timeout_s="9")
    toml = tmp_path / ".config/uv/uv.toml"
    toml.parent.mkdir(parents=True)
    toml.write_text('[pip]\nindex-url = "https://mine"\n', encoding="utf-8")
    assert uv_variables(settings, {"HOME": str(tmp_path)}) == {"UV_HTTP_TIMEOUT": "9"}
    toml.write_text('link-mode = "copy"\n', encoding="utf-8")
    assert "UV_DEFAULT_INDEX" in uv_variables(settings, {"HOME": str(tmp_path)})


def tool(*arguments: str, environ: dict[str, str]) -> str:
    """What tools/uv_settings.py prints, on a Python that has nothing installed."""
    command = [sys.executable, "-S", str(REPOSITORY / "tools/uv_settings.py"), *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def test_the_tool_prints_words_and_nothing_where_there_is_nothing(tmp_path: Path) -> None:
    quiet = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, "PATH": os.defpath}
    assert tool(environ=quiet) == ""
    links = {**quiet, "PIP_FIND_LINKS": "/a /b", "PIP_EXTRA_INDEX_URL": "https://a https://b"}
    assert tool(environ=links).split() == ["UV_INDEX_STRATEGY=unsafe-best-match", "UV_FIND_LINKS=/a,/b"]


def test_the_tool_runs_a_command_with_all_of_it(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": "https://a https://b"}
    printed = tool(sys.executable, "-c", "import os; print(os.environ['UV_INDEX'])", environ=environ)
    assert printed == "https://a https://b\n"
