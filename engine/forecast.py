"""What a run will take, before it is launched: one window of the learner's own code on shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import InputError
from engine.layers import Pass
from engine.learner import Learner, shape_memory, shape_window
from engine.memory import TimelinePoint
from engine.ops.shapes import ShapeOperations
from engine.recompute import BlockCost, Plan, cheapest, every, keep_all
from engine.settings import Settings

CPU_ALIGNMENT = 64


@dataclass(frozen=True)
class LayerForecast:
    """One layer: its trained numbers, the bytes it keeps from forward to backward, the shape of one output sample."""

    name: str
    parameters: int
    saved_bytes: int
    output_shape: tuple[int, ...]
    recomputed: bool


@dataclass(frozen=True)
class Forecast:
    """`peak`: bytes by category at the moment of the largest total. `reserved`: what the pool has to have, gaps
    included.

    `work` counts the arithmetic of one micro-batch, `recomputed_work` the part that is done a second time, `calls`
    the operations.
    """

    peak: dict[str, int]
    layers: tuple[LayerForecast, ...]
    timeline: tuple[TimelinePoint, ...]
    parameters: int
    reserved: int
    plan: Plan
    work: float
    recomputed_work: float
    calls: float
    batch_norm: bool


def forecast(
    tables: Sequence[dict[str, Any]],
    input_shape: tuple[int, ...],
    outputs: int,
    settings: Settings,
    *,
    alignment: int = CPU_ALIGNMENT,
    data_bytes: int = 0,
    samples: int | None = None,
) -> Forecast:
    """Runs one window on shapes. `data_bytes` is the data set itself where it shares the device's memory.

    Raises InvalidLayer or InputError for a network or a plan that cannot be.
    """
    rows = min(settings.micro_batch, samples or settings.micro_batch)
    request = settings.recompute
    if request != "auto":
        return _run(tables, input_shape, outputs, settings, alignment, data_bytes, rows, None)
    plain = _run(tables, input_shape, outputs, settings, alignment, data_bytes, rows, "none")
    if not settings.budget or plain.peak["total"] <= settings.budget:
        return plain
    return _fit_plan(tables, input_shape, outputs, settings, alignment, data_bytes, rows, plain)


def _run(
    tables: Sequence[dict[str, Any]],
    input_shape: tuple[int, ...],
    outputs: int,
    settings: Settings,
    alignment: int,
    data_bytes: int,
    rows: int,
    plan: Plan | str | None,
) -> Forecast:
    memory = shape_memory(alignment, timeline=True)
    operations = ShapeOperations(memory)
    learner = Learner(tables, input_shape, outputs, settings, operations)
    if data_bytes:
        memory.adopt(data_bytes, "data")
    blocks = len(learner.model.blocks)
    if plan is None or isinstance(plan, str):
        plan = plan_of(plan or settings.recompute, blocks)
    once = _forward_work(learner, rows)
    operations.flops, operations.calls = 0.0, 0
    memory.restart_peak()
    memory.timeline.clear()
    micro_batches = min(settings.accumulate, 2)
    shape_window(learner, plan, rows)
    counts = {parameter.name: parameter.value.size for parameter in learner.model.parameters}
    return Forecast(
        peak=dict(memory.peak),
        layers=_layers(learner, plan, rows, counts),
        timeline=tuple(memory.timeline),
        parameters=learner.model.parameter_count,
        reserved=memory.reserved + memory.outside,
        plan=plan,
        work=operations.flops / micro_batches,
        calls=operations.calls / micro_batches,
        batch_norm=learner.model.batch_norm,
        recomputed_work=sum(
            once[step.block] for position, step in enumerate(plan) if _is_forward(step.action) and _seen(plan, position)
        ),
    )


def plan_of(request: str, blocks: int) -> Plan:
    """The plan for `none` or `every:N`."""
    if request == "none":
        return keep_all(blocks)
    kind, _, number = request.partition(":")
    if kind != "every" or not number.isdigit() or int(number) < 1:
        raise InputError(f'memory.recompute: expected "none", "every:N" with N at least 1, or "auto", got {request!r}')
    return every(int(number), blocks)


def _is_forward(action: str) -> bool:
    return action in ("save", "keep", "drop")


def _seen(plan: Plan, position: int) -> bool:
    block = plan[position].block
    return any(step.block == block and _is_forward(step.action) for step in plan[:position])


def _forward_work(learner: Learner, rows: int) -> list[float]:
    """The arithmetic of each block's forward pass."""
    run = Pass(learner.operations, training=True)
    current, work = learner.inputs[0][:rows], []
    for number, block in enumerate(learner.model.blocks):
        learner.operations.flops = 0.0
        y = block.forward(current, run, None)
        if number:
            learner.memory.give(current)
        work.append(learner.operations.flops)
        current = y
    learner.memory.give(current)
    return work


def _layers(learner: Learner, plan: Plan, rows: int, counts: dict[str, int]) -> tuple[LayerForecast, ...]:
    first = {}
    for step in plan:
        first.setdefault(step.block, step.action)
    made: list[LayerForecast] = []
    blocks = learner.model.blocks
    for number, block in enumerate(blocks):
        saved = first[number] == "save"
        rebuilt = number > 0 and saved and first[number - 1] == "save" and blocks[number - 1].rebuilds
        for place, layer in enumerate(block.layers):
            sizes = {name: spec.nbytes for name, spec in layer.saves(rows).items()}
            if not saved:
                sizes = {"input": layer.input_spec(rows).nbytes} if place == 0 and first[number] == "keep" else {}
            if place == 0 and (number == 0 or rebuilt):
                sizes.pop("input", None)
            parameters = sum(size for name, size in counts.items() if name.startswith(f"{layer.name}."))
            made.append(LayerForecast(layer.name, parameters, sum(sizes.values()), layer.output_shape, not saved))
    return tuple(made)


def block_costs(
    tables: Sequence[dict[str, Any]],
    input_shape: tuple[int, ...],
    outputs: int,
    settings: Settings,
    alignment: int,
    rows: int,
) -> list[BlockCost]:
    """Sizes and work of each block, from running it by itself on shapes."""
    memory = shape_memory(alignment)
    operations = ShapeOperations(memory)
    learner = Learner(tables, input_shape, outputs, settings, operations)
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
        saved = memory.total - held - _size(memory, y.nbytes)
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
        costs.append(
            BlockCost(
                input=_size(memory, current.nbytes) if number else 0,
                saved=saved,
                forward_bytes=forward_peak - saved,
                backward_bytes=backward_peak,
                forward_work=forward_work,
                backward_work=operations.flops,
                rebuilds=block.rebuilds,
            )
        )
        if number and not block.saves_input:
            memory.give(current)
        current = next_current
    return costs


def _size(memory: Any, size: int) -> int:
    return -(-size // memory.alignment) * memory.alignment


def _fit_plan(
    tables: Sequence[dict[str, Any]],
    input_shape: tuple[int, ...],
    outputs: int,
    settings: Settings,
    alignment: int,
    data_bytes: int,
    rows: int,
    plain: Forecast,
) -> Forecast:
    """The cheapest plan whose forecast keeps to the budget; the leanest one where none does.

    The planner adds up sizes block by block, the forecast is exact: where they differ the planner's limit is moved by
    the difference.
    """
    costs = block_costs(tables, input_shape, outputs, settings, alignment, rows)
    fixed = sum(plain.peak[name] for name in ("weights", "optimizer", "data"))
    fixed += sum(layer.parameters for layer in plain.layers) * settings.parameter_dtype.itemsize
    limit = settings.budget - fixed
    best: Forecast | None = None
    for _ in range(8):
        plan = cheapest(costs, limit) if limit > 0 else None
        if plan is None:
            break
        made = _run(tables, input_shape, outputs, settings, alignment, data_bytes, rows, plan)
        if made.peak["total"] <= settings.budget:
            return made
        if best is None or made.peak["total"] < best.peak["total"]:
            best = made
        limit -= max(made.peak["total"] - settings.budget, limit // 32)  # by enough for another plan
    leanest = _leanest(tables, input_shape, outputs, settings, alignment, data_bytes, rows)
    return min(filter(None, (best, leanest)), key=lambda made: made.peak["total"])


def _leanest(
    tables: Sequence[dict[str, Any]],
    input_shape: tuple[int, ...],
    outputs: int,
    settings: Settings,
    alignment: int,
    data_bytes: int,
    rows: int,
) -> Forecast:
    """The smallest peak among plans of regular intervals."""
    blocks = len(block_costs(tables, input_shape, outputs, settings, alignment, rows))
    candidates = (
        _run(tables, input_shape, outputs, settings, alignment, data_bytes, rows, every(interval, blocks))
        for interval in (1, 2, 3, 4, 6, 8)
    )
    return min(candidates, key=lambda made: made.peak["total"])
