"""What a run will take, before it is launched: one window of the learner's own code on shapes alone."""

from dataclasses import dataclass, replace
from typing import Any

from engine.errors import InputError
from engine.layers import Pass, Tables
from engine.learner import Learner, shape_window
from engine.memory import Memory, Shape, TimelinePoint
from engine.model import chain
from engine.ops import kernels_named, without_kernels
from engine.ops.shapes import ShapeOperations
from engine.recompute import BlockCost, Plan, cheapest, every, keep_all
from engine.settings import Settings

CPU_ALIGNMENT = 64
CARD_KERNELS = "cuda"  # the operations of a card, where sizes round up to more
MOST_PLANS = 16  # plans that are forecast before regular ones have to do
COMPILE_WORTH = 3e10  # work of an epoch, about a second of the reference, from which compiling kernels pays


@dataclass(frozen=True)
class Forecast:
    """`peak`: bytes by category at the moment of the largest total. `reserved`: what the pool has to have, gaps
    included.

    `work` counts the arithmetic of one micro-batch of `rows` samples, `recomputed_work` the part that is done a second
    time, `calls` the operations. `fallback`: why the reference operations run where compiled ones would pay, or "".
    `learner` is the one on shapes that this was found with.
    """

    peak: dict[str, int]
    learner: Learner
    rows: int
    timeline: tuple[TimelinePoint, ...]
    reserved: int
    plan: Plan
    work: float
    recomputed_work: float
    calls: float
    kernels: str
    fallback: str

    @property
    def parameters(self) -> int:
        """Trained numbers."""
        return self.learner.model.parameter_count


@dataclass(frozen=True)
class _Request:
    """What is forecast: a network over a sample shape, trained so, on a device of that alignment."""

    tables: Tables
    input_shape: Shape
    outputs: int
    settings: Settings
    alignment: int
    data_bytes: int
    rows: int
    kernels: str
    fallback: str = ""

    def learner(self, timeline: bool = False) -> Learner:
        memory = Memory(alignment=self.alignment, timeline=[] if timeline else None)
        operations = ShapeOperations(memory, kernels_named(self.kernels))
        return Learner(self.tables, self.input_shape, self.outputs, self.settings, operations)


def forecast(
    tables: Tables, input_shape: Shape, outputs: int, settings: Settings, *, alignment: int = CPU_ALIGNMENT,
    data_bytes: int = 0, samples: int | None = None,
) -> Forecast:  # fmt: skip
    """Runs one window on shapes. `data_bytes` is the data set itself where it shares the device's memory.

    Raises InvalidLayer or InputError for a network or a plan that cannot be.
    """
    rows = min(settings.micro_batch, samples or settings.micro_batch)
    kernels = "reference" if alignment == CPU_ALIGNMENT else settings.kernels or CARD_KERNELS
    request = _Request(tables, tuple(input_shape), outputs, settings, alignment, data_bytes, rows, kernels)
    plain = _run(request, "none" if settings.recompute == "auto" else settings.recompute)
    if alignment == CPU_ALIGNMENT and _is_compiled(plain, settings, samples or rows):
        fallback = without_kernels()
        request = replace(request, kernels="reference" if fallback else "cpu", fallback=fallback)
        plain = _run(request, plain.plan)
    over = settings.budget and plain.peak["total"] > settings.budget
    return _fit_plan(request, plain) if settings.recompute == "auto" and over else plain


def _is_compiled(made: Forecast, settings: Settings, samples: int) -> bool:
    """As the settings say; else half precision always, since NumPy's casts are slow, and float32 when an epoch is long
    enough.
    """
    if settings.kernels:
        return settings.kernels == "cpu"
    return settings.mode == "mixed" or made.work * -(-samples // settings.micro_batch) > COMPILE_WORTH


def _run(request: _Request, plan: Plan | str) -> Forecast:
    learner = request.learner(timeline=True)
    settings, memory, operations = request.settings, learner.memory, learner.operations
    if request.data_bytes:
        memory.adopt(request.data_bytes, "data")
    if isinstance(plan, str):
        plan = plan_of(plan, len(learner.model.blocks))
    once = _forward_work(learner, request.rows)
    operations.flops, operations.calls = 0.0, 0
    memory.restart_peak()
    memory.timeline.clear()
    micro_batches = min(settings.accumulate, 2)
    shape_window(learner, plan, request.rows)
    forwards = [step.block for step in plan if step.action in ("save", "keep", "drop")]
    return Forecast(
        peak=dict(memory.peak), learner=learner, rows=request.rows, timeline=tuple(memory.timeline),
        reserved=memory.reserved + memory.outside, plan=plan,
        work=operations.flops / micro_batches, calls=operations.calls / micro_batches,
        kernels=request.kernels, fallback=request.fallback,
        recomputed_work=sum(once[block] for place, block in enumerate(forwards) if block in forwards[:place]),
    )  # fmt: skip


def plan_of(request: str, blocks: int) -> Plan:
    """The plan for `none` or `every:N`."""
    if request == "none":
        return keep_all(blocks)
    kind, _, number = request.partition(":")
    if kind != "every" or not number.isdigit() or int(number) < 1:
        raise InputError(f'memory.recompute: expected "none", "every:N" with N at least 1, or "auto", got {request!r}')
    return every(int(number), blocks)


def _forward_work(learner: Learner, rows: int) -> list[float]:
    """The arithmetic of each block's forward pass."""
    operations, work = learner.operations, []
    operations.flops = 0.0
    for output in chain(learner.model.blocks, learner.inputs[0][:rows], Pass(operations, training=True)):
        work.append(operations.flops)
        operations.flops, last = 0.0, output
    learner.memory.give(last)
    return work


def _block_costs(request: _Request) -> list[BlockCost]:
    """Sizes and work of each block, from running it by itself on shapes."""
    learner, rows = request.learner(), request.rows
    memory, operations = learner.memory, learner.operations
    run = Pass(operations, training=True)
    costs: list[BlockCost] = []
    current = learner.inputs[0][:rows]
    for number, block in enumerate(learner.model.blocks):
        held = memory.total
        memory.restart_peak()
        operations.flops = 0.0
        kept: list[dict[str, Any]] = [{} for _ in block.layers]
        y = block.forward(current, run, kept)
        forward_work, forward_peak = operations.flops, memory.peak["total"] - held
        saved = memory.total - held - memory.rounded(y.nbytes)
        if block.saves_input:
            kept[0]["input"] = current
        next_current = memory.take(y.shape, y.dtype, "activations")
        memory.give(y)
        grad = memory.take(y.shape, y.dtype, "gradients")
        before = memory.total - grad.nbytes - next_current.nbytes - saved
        memory.restart_peak()
        operations.flops = 0.0
        dx = block.backward(grad, run, kept, owns_input=number > 0)
        backward_peak = memory.peak["total"] - before - saved - next_current.nbytes
        if dx is not None:
            memory.give(dx)
        own_input = memory.rounded(current.nbytes) if number else 0
        work = (forward_work, operations.flops)
        costs.append(BlockCost(own_input, saved, forward_peak - saved, backward_peak, *work, block.rebuilds))
        if number and not block.saves_input:
            memory.give(current)
        current = next_current
    return costs


def _fit_plan(request: _Request, plain: Forecast) -> Forecast:
    """The cheapest plan whose forecast keeps to the budget; the leanest one where none does.

    The planner adds up sizes block by block and so overstates some plans; the forecast is exact. So the planner is
    asked with more than there is, then with less and less, until the forecast of its plan fits.
    """
    costs, budget = _block_costs(request), request.settings.budget
    fixed = sum(plain.peak[name] for name in ("weights", "optimizer", "data"))
    fixed += plain.parameters * request.settings.parameter_dtype.itemsize
    limit = (budget - fixed) * 5 // 4
    tried: list[Forecast] = []
    while limit > 0 and len(tried) < MOST_PLANS and (plan := cheapest(costs, limit)) is not None:
        tried.append(_run(request, plan))
        if tried[-1].peak["total"] <= budget:
            return tried[-1]
        limit -= max(tried[-1].peak["total"] - budget, limit // 32)
    tried += (_run(request, every(interval, len(costs))) for interval in (1, 2, 3, 4, 6, 8))
    return min(tried, key=lambda made: (made.peak["total"] > budget, made.peak["total"]))
