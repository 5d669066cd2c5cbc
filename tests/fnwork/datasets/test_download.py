"""Downloading from a server of this machine that does what real ones do: cuts off, forgets, serves something else."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from engine.errors import InputError
from fnwork.cli import main
from fnwork.datasets import DataSettings, cache, download, load
from fnwork.datasets.download import File, Source
from fnwork.files import FileLock
from tests.fnwork.datasets.test_cifar import archived, batches

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
OTHER = b"<html>log in to this network first</html>"


class Server(ThreadingHTTPServer):
    """`files` by path; `cuts`: after how many bytes each of the next answers ends; `ranges`: whether it can
    go on; `lengths`: whether it says how much will come.
    """

    daemon_threads = False  # closing waits for the answers that are being given

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cuts: list[int] = []
        self.ranges = self.lengths = True
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append((self.path, wanted))
        content = server.files.get(self.path.lstrip("/"))
        if content is None:
            self.send_error(404)
            return
        begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
        if begin and begin >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        if server.lengths:
            self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        end = begin + server.cuts.pop(0) if server.cuts else len(content)
        self.wfile.write(content[begin:end])

    def log_message(self, *arguments):
        pass


def serving():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    return server, thread


@pytest.fixture
def server():
    made, thread = serving()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture(autouse=True)
def small_set(tmp_path, monkeypatch):
    """A data set of one file, and a cache of the test's own."""
    monkeypatch.setenv("FNWORK_CACHE", str(tmp_path / "cache"))
    file = File("data.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setitem(download.SOURCES, "mnist", Source(("http://127.0.0.1:1/",), (file,)))


def get(server=None, folder=None, progress=lambda *told: None):
    return download.get("mnist", folder, server.url if server else "", progress)


def refused(*arguments, **names):
    with pytest.raises(InputError) as error:
        get(*arguments, **names)
    return str(error.value)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".download.lock")


def test_a_file_is_downloaded_once_and_its_progress_told(server):
    server.files["data.bin"] = CONTENT
    told = []
    (path,) = get(server, progress=lambda *each: told.append(each))
    assert path == cache.downloaded("mnist") / "data.bin" and path.read_bytes() == CONTENT
    assert told[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    get(server)
    assert len(server.asked) == 1
    assert names(path.parent) == ["data.bin"]


def test_what_was_cut_off_goes_on_where_it_ended(server):
    server.files["data.bin"] = CONTENT
    server.cuts = [100_000, 50_000]
    (path,) = get(server)
    assert path.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_call_goes_on_with_what_was_kept(server):
    server.files["data.bin"] = CONTENT
    server.cuts = [100_000] + [0] * 10
    said = refused(server)
    assert "cut off after 100,000 of 300,000 bytes" in said and "97.7 KiB are kept; the same command goes on" in said
    server.cuts, server.asked = [], []
    (path,) = get(server)
    assert path.read_bytes() == CONTENT
    assert server.asked == [("/data.bin", "bytes=100000-")]


def test_a_server_that_cannot_go_on_is_asked_from_the_beginning(server):
    server.files["data.bin"], server.ranges = CONTENT, False
    server.cuts = [100_000]
    (path,) = get(server)
    assert path.read_bytes() == CONTENT
    assert server.asked[1] == ("/data.bin", "bytes=100000-")


def test_another_file_of_the_same_name_is_refused_and_not_kept(server):
    server.files["data.bin"] = CONTENT[::-1]
    said = refused(server)
    assert "the file there is another one" in said and hashlib.sha256(CONTENT).hexdigest() in said
    assert names(cache.downloaded("mnist")) == []
    server.files["data.bin"] = CONTENT + b"x"
    assert "it is longer" in refused(server)
    assert names(cache.downloaded("mnist")) == []


def test_what_is_kept_of_another_file_does_not_spoil_the_next_attempt(server):
    part = cache.downloaded("mnist") / "data.bin.part"
    part.parent.mkdir(parents=True)
    for kept in (OTHER, CONTENT[::-1], CONTENT + b"x"):
        part.write_bytes(kept)
        server.files["data.bin"] = CONTENT
        (path,) = get(server)
        assert path.read_bytes() == CONTENT
        path.unlink()


def test_a_page_in_the_files_place_is_refused(server):
    server.files["data.bin"] = OTHER
    assert "shorter than 300,000 bytes" in refused(server)
    assert names(cache.downloaded("mnist")) == []
    server.ranges = False
    assert "shorter than 300,000 bytes" in refused(server)


@pytest.mark.parametrize("told", [True, False], ids=["its length told", "or not"])
@pytest.mark.parametrize("page", [OTHER, b""], ids=["page", "nothing"])
def test_a_page_in_the_files_place_takes_nothing_of_what_is_kept(server, page, told):
    server.files["data.bin"] = CONTENT
    server.cuts = [100_000] + [0] * 10
    refused(server)
    server.files["data.bin"], server.ranges, server.lengths, server.cuts = page, False, told, []
    assert "97.7 KiB are kept" in refused(server)
    server.files["data.bin"], server.ranges, server.lengths, server.asked = CONTENT, True, True, []
    (path,) = get(server)
    assert path.read_bytes() == CONTENT and names(path.parent) == ["data.bin"]
    assert server.asked == [("/data.bin", "bytes=100000-")]


def test_mirrors_are_tried_in_turn(server, monkeypatch):
    good, thread = serving()
    good.files["data.bin"] = CONTENT
    server.files["data.bin"] = OTHER
    source = download.SOURCES["mnist"]
    places = ("http://127.0.0.1:1/", f"{server.url}absent/", server.url, good.url)
    monkeypatch.setitem(download.SOURCES, "mnist", Source(places, source.files))
    (path,) = get()
    assert path.read_bytes() == CONTENT
    good.files["data.bin"] = OTHER
    path.unlink()
    lines = refused().splitlines()
    assert lines[0] == "data.bin could not be downloaded"
    assert lines[1] == "http://127.0.0.1:1/data.bin: no answer: Connection refused"
    assert lines[2] == f"{server.url}absent/data.bin: 404 Not Found"
    good.shutdown()
    thread.join()
    good.server_close()


@pytest.mark.parametrize(
    ("mirror", "said"),
    [
        ("http://127.0.0.1:1", "Connection refused"),
        ("http://nowhere.invalid/", "no answer"),
        ("http://[bad/", "no answer"),
        ("http://a b/", "no answer"),
        ("ftp://127.0.0.1/", "begins with https:// or http://"),
        ("file:///etc/", "begins with https:// or http://"),
    ],
)
def test_no_network_and_addresses_that_are_none_are_told(mirror, said):
    with pytest.raises(InputError) as error:
        download.get("mnist", None, mirror, lambda *told: None)
    assert said in str(error.value)


def test_a_file_of_the_persons_own_is_not_replaced(server, tmp_path):
    server.files["data.bin"] = CONTENT
    (tmp_path / "data.bin").write_bytes(b"mine")
    assert "is there and is another file" in refused(server, tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == b"mine"
    (path,) = get(server, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "data.bin"


def test_a_damaged_file_in_the_cache_is_downloaded_again(server):
    server.files["data.bin"] = CONTENT
    (path,) = get(server)
    path.write_bytes(CONTENT[:-1] + b"x")
    get(server)
    assert path.read_bytes() == CONTENT


def test_two_at_once_are_told_apart(server):
    cache.downloaded("mnist").mkdir(parents=True)
    lock = FileLock(cache.downloaded("mnist") / ".download.lock")
    assert lock.acquire()
    assert "another process is downloading" in refused(server)
    lock.release()


def test_a_place_that_cannot_be_written_is_told(server, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused(server, tmp_path / "file" / "below")


def test_a_reading_that_is_ended_keeps_what_came(server):
    server.files["data.bin"] = CONTENT

    def end(what, done, total):
        if done > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(server, progress=end)
    assert (cache.downloaded("mnist") / "data.bin.part").stat().st_size > 100_000
    assert get(server)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_the_known_places_are_well_formed(name, monkeypatch):
    monkeypatch.undo()
    source = download.SOURCES[name]
    assert len(source.mirrors) >= 2
    assert all(mirror.startswith("http") and mirror.endswith("/") for mirror in source.mirrors)
    for file in source.files:
        assert file.size > 0 and len(bytes.fromhex(file.sha256)) == 32
    assert len({file.sha256 for file in source.files}) == len({file.name for file in source.files}) == len(source.files)


def test_the_command_gets_a_set_that_is_found_by_its_name_alone(server, tmp_path, monkeypatch, capsys):
    content = archived(tmp_path / "c.tar.gz", batches()).read_bytes()
    file = File("cifar-10-binary.tar.gz", len(content), hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(download.SOURCES, "cifar10", Source((server.url,), (file,)))
    server.files[file.name] = content
    assert main(["data", "get", "cifar10"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{cache.downloaded('cifar10') / file.name}\n"
    assert "needs no data.path" in captured.err
    assert len(load(DataSettings("cifar10", validation="test"), 0).train) == 40
    assert main(["data", "get", "cifar10", "--mirror", f"{server.url}absent", "--path", str(tmp_path / "x")]) == 2
    assert "404 Not Found" in capsys.readouterr().err
    assert main(["data", "info", "cifar10", "--mirror", server.url]) == 2
    assert main(["data", "get", "cifar10", "--json"]) == 0
