"""What a forecast says of each layer."""

from dataclasses import dataclass

from engine.forecast import Forecast


@dataclass(frozen=True)
class LayerForecast:
    """One layer: its trained numbers, the bytes it keeps from forward to backward, the shape of one output sample."""

    name: str
    parameters: int
    saved_bytes: int
    output_shape: tuple[int, ...]


def layer_forecasts(forecast: Forecast) -> list[LayerForecast]:
    """In the order of the network."""
    model, rows, first = forecast.learner.model, forecast.rows, {}
    for step in forecast.plan:
        first.setdefault(step.block, step.action)
    made: list[LayerForecast] = []
    for number, block in enumerate(model.blocks):
        saved = first[number] == "save"
        rebuilt = number > 0 and saved and first[number - 1] == "save" and model.blocks[number - 1].rebuilds
        for place, layer in enumerate(block.layers):
            sizes = {name: spec.nbytes for name, spec in layer.saves(rows).items()}
            if not saved:
                sizes = {"input": layer.input_spec(rows).nbytes} if place == 0 and first[number] == "keep" else {}
            if place == 0 and (number == 0 or rebuilt):
                sizes.pop("input", None)
            own = (each for each in model.parameters if each.name.startswith(f"{layer.name}."))
            parameters = sum(parameter.value.size for parameter in own)
            made.append(LayerForecast(layer.name, parameters, sum(sizes.values()), layer.output_shape))
    return made
