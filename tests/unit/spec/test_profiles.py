"""The configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from airlane.errors import ConfigError
from airlane.spec.profiles import NO_TRACKING, Profile, config_file, load_profile

FILE = """\
default = "hpc"
[profiles.hpc]
backend = "slurm"
home = "/fsx/me/.air"
partition = "gpu"
sbatch = ["--qos=high"]
tracking_uri = "http://mlflow.lab:5000/"
stop_grace_s = 10
straggler_grace_s = 60.5
network = "auto"
secrets = { "hub/token" = "HF_TOKEN" }
[profiles.quiet]
tracking_uri = "none"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / 'it\'s a "config"\n é.toml'
    path.write_text(FILE, encoding="utf-8")
    return path


def env(file: Path, **more: str) -> dict[str, str]:
    return {"AIR_CONFIG": str(file), **more}


def test_a_profile_is_read_whole(file: Path) -> None:
    assert load_profile("hpc", env(file)) == Profile(
        name="hpc",
        backend="slurm",
        home=Path("/fsx/me/.air"),
        tracking_uri="http://mlflow.lab:5000",
        stop_grace_s=10.0,
        straggler_grace_s=60.5,
        network="auto",
        secrets={"hub/token": "HF_TOKEN"},
        options={"partition": "gpu", "sbatch": ["--qos=high"]},
        file=file,
    )


def test_the_flag_wins_over_the_variable_and_that_over_the_default(file: Path) -> None:
    assert load_profile(None, env(file)).name == "hpc"
    assert load_profile(None, env(file, AIR_PROFILE="quiet")).name == "quiet"
    assert load_profile("local", env(file, AIR_PROFILE="quiet")).name == "local"


def test_without_a_file_there_is_the_local_profile(tmp_path: Path) -> None:
    profile = load_profile(None, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert profile == Profile("local")
    assert (profile.backend, profile.stop_grace_s, profile.straggler_grace_s) == ("local", 30.0, 300.0)


def test_the_local_profile_can_be_changed(file: Path) -> None:
    file.write_text('[profiles.local]\nhome = "/data/air"\n', encoding="utf-8")
    assert load_profile(None, env(file)).home == Path("/data/air")


def test_tracking_can_be_turned_off(file: Path) -> None:
    assert load_profile("quiet", env(file)).tracking_uri == NO_TRACKING


def test_the_file_is_found_where_people_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert config_file({}) == Path("/home/ada/.config/air/config.toml")
    assert config_file({"XDG_CONFIG_HOME": "/etc/xdg"}) == Path("/etc/xdg/air/config.toml")
    assert config_file({"AIR_CONFIG": "~/air.toml"}) == Path("/home/ada/air.toml")


def test_home_may_start_with_a_tilde(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    file.write_text('[profiles.a]\nhome = "~/.air"\n', encoding="utf-8")
    assert load_profile("a", env(file)).home == Path("/home/ada/.air")


REFUSED = [
    ('defualt = "a"', "{file}: defualt: unknown key", "Did you mean `default`?"),
    ("default = 3", "{file}: default: expected a profile's name, got 3", None),
    ("profiles = 3", "{file}: profiles: expected tables, got 3", "write [profiles.NAME]"),
    ("[profiles]\na = 3", "{file}: profiles.a: expected a table, got 3", "write [profiles.a]"),
    ("[profiles.a]\nbackend = 3", "{file}: profiles.a.backend: expected text, got 3", None),
    ("[profiles.a]\nbackend = ''", "{file}: profiles.a.backend: expected text, got ''", None),
    (
        "[profiles.a]\nhome = '~no-such-user/x'",
        "{file}: profiles.a.home: expected an absolute path, got '~no-such-user/x'",
        None,
    ),
    ("[profiles.a]\nhome = 'x'", "{file}: profiles.a.home: expected an absolute path, got 'x'", None),
    (
        "[profiles.a]\ntracking_uri = 'sqlite:///x'",
        "{file}: profiles.a.tracking_uri: expected an http:// or https:// address, or \"none\", got 'sqlite:///x'",
        None,
    ),
    (
        "[profiles.a]\nstop_grace_s = true",
        "{file}: profiles.a.stop_grace_s: expected seconds, 0 or more, got True",
        None,
    ),
    ("[profiles.a]\nstop_grace_s = -1", "{file}: profiles.a.stop_grace_s: expected seconds, 0 or more, got -1", None),
    ("[profiles.a]\nstop_grace_s = nan", "{file}: profiles.a.stop_grace_s: expected seconds, 0 or more, got nan", None),
    (
        "[profiles.a]\nnetwork = 'ethernt'",
        "{file}: profiles.a.network: expected one of efa, infiniband, ethernet, auto, got 'ethernt'",
        "Did you mean `ethernet`?",
    ),
    (
        "[profiles.a]\nnetwork = 1",
        "{file}: profiles.a.network: expected one of efa, infiniband, ethernet, auto, got 1",
        None,
    ),
    (
        "[profiles.a]\ncontainer = 'dokcer'",
        "{file}: profiles.a.container: expected one of docker, podman, apptainer, enroot, none, got 'dokcer'",
        "Did you mean `docker`?",
    ),
    (
        "[profiles.a]\nmounts = '/data'",
        "{file}: profiles.a.mounts: expected a list of texts, got '/data'",
        None,
    ),
    (
        "[profiles.a]\nmounts = ['data']",
        "{file}: profiles.a.mounts: expected /FOLDER, /FOLDER:/INSIDE or /FOLDER:/INSIDE:ro, got 'data'",
        'for example mounts = ["/data:/data:ro"]',
    ),
    (
        "[profiles.a]\nsecrets = 'x'",
        "{file}: profiles.a.secrets: expected a table, got 'x'",
        'write secrets = { "scope/key" = "VARIABLE" }',
    ),
    (
        "[profiles.a]\nsecrets = { hub.token = 'X' }",
        "{file}: profiles.a.secrets: expected scope/key, got 'hub'",
        'write it in quotes: "scope/key"',
    ),
    (
        "[profiles.a]\nsecrets = { 'hub/token' = 'the value' }",
        "{file}: profiles.a.secrets.hub/token: expected the name of an environment variable",
        None,
    ),
    ("default = 'b'", "no profile 'b' in {file}", "There is local."),
    ("default = 'hcp'\n[profiles.hpc]", "no profile 'hcp' in {file}", "Did you mean `hpc`? There are local, hpc."),
]


@pytest.mark.parametrize(("text", "message", "hint"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_wrong_file_is_refused_with_its_name_and_key(file: Path, text: str, message: str, hint: str | None) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_profile(None, env(file))
    assert (caught.value.message, caught.value.hint) == (message.format(file=file), hint)


def test_a_file_that_is_not_toml_is_refused_with_the_line(file: Path) -> None:
    file.write_text("a = 1\nb = \n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"is not valid TOML: .*line 2"):
        load_profile(None, env(file))
    file.write_bytes(b"a = '\xe9'")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load_profile(None, env(file))


def test_a_config_that_is_asked_for_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"names .*gone\.toml, and there is no such file"):
        load_profile(None, env(tmp_path / "gone.toml"))
    with pytest.raises(ConfigError, match="no such file"):
        load_profile("hpc", {"XDG_CONFIG_HOME": str(tmp_path)})
