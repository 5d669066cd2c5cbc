"""A network of layer tables trained by PyTorch on the CPU: what the engine is measured against.

Started by the other files here, with any Python that has PyTorch. A job comes in as one line of JSON; then "steps"
answers each further line with the milliseconds of a training step and the largest size of the process, and "run" trains
whole epochs from a DataLoader and answers once.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from tests.bench.process import peak


class Residual(nn.Module):
    """As the engine's layer of that name."""

    def __init__(self, inputs: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        same = stride == 1 and inputs == out
        self.skip = nn.Identity() if same else nn.Conv2d(inputs, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        middle = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(middle)) + self.skip(x))


class GlobalAverage(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))


def module(table: dict, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """The layer of a table, for inputs of `shape` without the batch."""
    match table["type"]:
        case "conv":
            kernel = table.get("kernel", 3)
            stride, bias = table.get("stride", 1), table.get("bias", True)
            return nn.Conv2d(shape[0], table["out"], kernel, stride, kernel // 2, bias=bias)
        case "residual":
            return Residual(shape[0], table["out"], table.get("stride", 1))
        case "batch_norm":
            return nn.BatchNorm2d(shape[0])
        case "relu":
            return nn.ReLU(inplace=True)
        case "max_pool":
            return nn.MaxPool2d(table.get("size", 2))
        case "global_average":
            return GlobalAverage()
        case "flatten":
            return nn.Flatten()
        case "dropout":
            return nn.Dropout(table.get("rate", 0.5))
        case "linear":
            return nn.Linear(shape[0], table.get("out", outputs))
    raise ValueError(f"no layer of type {table['type']} here")


class Network(nn.Module):
    """`again`: each layer is computed again in backward instead of kept."""

    def __init__(self, tables: list[dict], input_shape: tuple[int, int, int], outputs: int, again: bool) -> None:
        super().__init__()
        self.layers, self.again = nn.ModuleList(), again
        values = torch.zeros(2, input_shape[2], *input_shape[:2])
        for table in tables:
            self.layers.append(module(table, values.shape[1:], outputs))
            with torch.no_grad():
                values = self.layers[-1].eval()(values)
        self.train()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.again else layer(x)
        return x


class Pictures(Dataset):
    """Normalised images, half of them mirrored where `flip` is set."""

    def __init__(self, images: np.ndarray, targets: np.ndarray, mean: float, std: float, flip: bool) -> None:
        self.images = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
        self.targets, self.mean, self.std, self.flip = torch.from_numpy(targets).long(), mean, std, flip

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        image = self.images[place].float().sub_(self.mean).div_(self.std)
        return image.flip(-1) if self.flip and torch.rand(()) < 0.5 else image, self.targets[place]


def steps(net: Network, batch: int, input_shape: tuple[int, int, int], outputs: int) -> None:
    """Answers each line of the input with a step: forward, backward, AdamW."""
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    x = torch.randn(batch, input_shape[2], *input_shape[:2])
    targets = torch.randint(0, outputs, (batch,))
    before = peak()
    print(json.dumps({"parameters": sum(each.numel() for each in net.parameters())}), flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        cross_entropy(net(x), targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(json.dumps({"ms": (time.perf_counter() - began) * 1e3, "growth": peak() - before}), flush=True)


def run(net: Network, job: dict) -> None:
    """Trains `epochs` on the arrays of a file, with a validation after each, and says how long that took."""
    data = np.load(job["data"])
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=job["weight_decay"])
    rates = iter(job["rates"])
    options = {"batch_size": job["batch"], "num_workers": job["workers"], "persistent_workers": job["workers"] > 0}
    scale = (job["mean"], job["std"])
    train = DataLoader(Pictures(data["inputs"], data["targets"], *scale, job["flip"]), shuffle=True, **options)
    held_out = DataLoader(Pictures(data["validation"], data["validation_targets"], *scale, False), **options)
    began = time.perf_counter()
    for _ in range(job["epochs"]):
        net.train()
        for images, targets in train:
            optimizer.param_groups[0]["lr"] = next(rates)
            loss = cross_entropy(net(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            right = sum((net(images).argmax(1) == targets).sum().item() for images, targets in held_out)
    print(json.dumps({"seconds": time.perf_counter() - began, "accuracy": right / len(held_out.dataset)}), flush=True)


def main() -> None:
    job = json.loads(sys.stdin.readline())
    torch.manual_seed(0)
    net = Network(job["layers"], tuple(job["input_shape"]), job["outputs"], job.get("again", False))
    if "data" in job:
        run(net, job)
    else:
        steps(net, job["batch"], tuple(job["input_shape"]), job["outputs"])


if __name__ == "__main__":
    main()
