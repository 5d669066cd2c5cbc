"""What the driver tells of cards, and which device is expected before one is chosen."""

import sys
from types import SimpleNamespace

import pytest

from engine.errors import InputError
from fnwork import fixed, prepare, spec
from fnwork.cards import Driver, Listed, driver, expect
from fnwork.outlook import outlook

GIB = 2**30
SMALL = Listed("GPU-aaaa1111", "NVIDIA GeForce GTX 1060", 6 * GIB, 5 * GIB, (6, 1))
LARGE = Listed("GPU-bbbb2222", "NVIDIA GeForce RTX 3090", 24 * GIB, 20 * GIB, (8, 6))


@pytest.fixture
def nvml(monkeypatch):
    """NVIDIA's library as it answers on a machine with two cards, one of which does not tell its memory."""

    class Error(Exception):
        pass

    class NotFound(Error):
        pass

    def memory(handle):
        if handle.memory is None:
            raise Error("Not Supported")
        return SimpleNamespace(free=handle.memory[0], total=handle.memory[1])

    handles = [
        SimpleNamespace(uuid="GPU-1", name="one", memory=(5, 8), capability=(8, 6)),
        SimpleNamespace(uuid="GPU-2", name="two", memory=None, capability=(12, 1)),
    ]
    library = SimpleNamespace(
        NVMLError=Error,
        NVMLError_LibraryNotFound=NotFound,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: len(handles),
        nvmlDeviceGetHandleByIndex=handles.__getitem__,
        nvmlSystemGetCudaDriverVersion=lambda: 12080,
        nvmlSystemGetDriverVersion=lambda: "570.124",
        nvmlDeviceGetMemoryInfo=memory,
        nvmlDeviceGetCudaComputeCapability=lambda handle: handle.capability,
        nvmlDeviceGetUUID=lambda handle: handle.uuid,
        nvmlDeviceGetName=lambda handle: handle.name,
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return library


def raising(error):
    def function(*arguments):
        raise error

    return function


def test_the_driver_tells_of_every_card(nvml):
    one, two = Listed("GPU-1", "one", 8, 5, (8, 6)), Listed("GPU-2", "two", 0, 0, (12, 1))
    assert driver() == Driver("570.124", (12, 8), (one, two))


def test_a_driver_that_is_not_there_or_does_not_answer(nvml, monkeypatch):
    monkeypatch.setattr(nvml, "nvmlInit", raising(nvml.NVMLError_LibraryNotFound("NVML Shared Library Not Found")))
    assert driver() == Driver()
    monkeypatch.setattr(nvml, "nvmlInit", raising(nvml.NVMLError("Driver/library version mismatch")))
    assert driver() == Driver(problem="Driver/library version mismatch")


# --- what is expected ---


@pytest.fixture
def cards(monkeypatch):
    """Makes a machine with these cards and CuPy, which nothing may import."""

    def make(*found):
        monkeypatch.setattr("fnwork.cards.driver", lambda: Driver("570.124", (12, 8), found))
        monkeypatch.setattr("fnwork.cards.find_spec", lambda name: object())
        monkeypatch.setitem(sys.modules, "cupy", None)

    for name in ("FNWORK_DEVICE", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return make


@pytest.mark.parametrize(
    "use, name",
    [
        ("auto", LARGE.name),
        ("cuda", LARGE.name),
        ("GPU-aaaa", SMALL.name),
        ("gpu-AAAA1111", SMALL.name),
        ("cuda:1", "device cuda:1"),  # CUDA's numbers are not the driver's
    ],
)
def test_the_card_that_will_most_likely_be_chosen(cards, use, name):
    cards(SMALL, LARGE)
    expected = expect(use)
    assert (expected.name, expected.is_cuda, expected.alignment) == (name, True, 512)


def test_one_card_is_every_card(cards):
    cards(SMALL)
    assert expect("cuda:0").name == SMALL.name


def test_without_a_card_or_without_cupy_it_is_the_cpu(cards, monkeypatch):
    cards()
    assert not expect("auto").is_cuda
    cards(SMALL)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not expect("auto").is_cuda
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr("fnwork.cards.find_spec", lambda name: None)
    assert not expect("auto").is_cuda


def test_what_is_asked_for_counts(cards, monkeypatch):
    cards(SMALL)
    assert not expect("cpu").is_cuda
    monkeypatch.setenv("FNWORK_DEVICE", "cpu")
    assert not expect("cuda").is_cuda
    monkeypatch.setenv("FNWORK_DEVICE", "nonsense")
    with pytest.raises(InputError, match="FNWORK_DEVICE=nonsense: expected auto"):
        expect("auto")


def test_an_expected_card_has_the_memory_that_is_free(cards):
    cards(SMALL)
    room = 5 * GIB * 9 // 10
    assert [expect("cuda").budget(asked) for asked in (0, GIB, 40 * GIB)] == [room, GIB, room]
    cards()
    assert [expect("cuda").budget(asked) for asked in (0, GIB)] == [0, GIB]


def test_the_outlook_names_the_device_and_lays_out_memory_for_it(cards, spec_path):
    text = spec_path.read_text(encoding="utf-8")
    cards()
    here = outlook(text, spec_path.parent)
    cards(SMALL)
    card = outlook(text, spec_path.parent)
    assert here.device.startswith("CPU") and card.device == SMALL.name
    assert card.peak["data"] < here.peak["data"]  # the data set stays with the host
    assert all(size % 512 == 0 for size in card.peak.values())


def test_a_card_that_is_not_here_can_be_forecast_but_not_trained_on(cards, spec_path):
    cards()
    read, text = spec.read(spec_path, ["device.use=cuda:3"])
    made = prepare.forecast(read, text, "small.toml", spec_path.parent)
    assert made.peak["total"] % 512 == 0
    with pytest.raises(InputError, match="no CUDA device can be used"):
        prepare.check(read, text, "small.toml", spec_path.parent)


def test_what_is_fixed_on_a_card_is_what_the_driver_sees_grow(monkeypatch):
    """By the card's UUID, and without the arrays of the run that was measured."""
    free = [5 * GIB, 5 * GIB - 300]
    monkeypatch.setattr(
        fixed, "driver", lambda: Driver(cards=(LARGE, Listed(SMALL.uuid, "", 6 * GIB, free.pop(0), (6, 1))))
    )
    asked = []
    monkeypatch.setattr(fixed, "warm_up", lambda *how: asked.append(how))
    assert fixed._measure(SMALL.uuid, "cuda") == 300
    assert asked == [(SMALL.uuid, "cuda")]
