"""What a model waits for its data while it trains: three models, on a GPU if there is one, fed from files and by hubarray.

The models learn in bfloat16 from random crops of photographs. On a processor alone everything is small, and its figures
say little.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import ResNetConfig, ResNetForImageClassification, ViTConfig, ViTForImageClassification

import hubarray as hub
from benchmarks import data, places
from benchmarks.loader import SIDE, indexed_files
from benchmarks.ours import NAME, OURS, cold, root_of
from benchmarks.places import Place

# Epochs that each source is given to be read in without a model, for each number of workers.
_PROBES = 2
_FILES = "files, DataLoader"


@dataclass(frozen=True)
class _Scale:
    """How large everything is."""

    device: str
    batch: int
    crop: int
    workers: tuple[int, ...]
    # Steps before the clock starts, while the card warms up.
    warm_up: int

    @staticmethod
    def of_this_machine() -> _Scale:
        cores = len(os.sched_getaffinity(0))
        if torch.cuda.is_available():
            return _Scale("cuda", 128, 224, (0, cores // 4, cores - 4), 10)
        return _Scale("cpu", 16, 64, (0, 1), 2)


# An epoch of batches, uint8, in the memory of the host.
Epoch = Callable[[], Iterator[Any]]


def training(megabytes: int) -> list[dict[str, Any]]:
    """Images a second, and the share of a step that is spent waiting, for each model and each source of its data."""
    torch.manual_seed(0)
    scale = _Scale.of_this_machine()
    # Some photographs, again and again: what they show makes no difference here.
    made = data.photographs(min(1024, max(2 * scale.batch, megabytes * 1_000_000 // (SIDE**2 * 3))), SIDE)
    count = max(2 * scale.batch, megabytes * 1_000_000 // made[0].nbytes) // scale.batch * scale.batch
    values = np.concatenate([made] * -(-count // len(made)))[:count]
    card = torch.cuda.get_device_name() if scale.device == "cuda" else platform.processor() or platform.machine()
    rates: dict[tuple[str, str], float] = {}
    rows = []
    with places.local() as local, places.s3() as remote:
        for source, make in _sources(local, remote, values, scale):
            epochs = {workers: make(workers) for workers in scale.workers}
            workers = min(epochs, key=lambda workers: _seconds(epochs[workers]))
            for model, make_model in MODELS.items():
                seconds, waited, images = _train(make_model, epochs[workers], scale)
                rates[model, source] = images / seconds
                rows.append({"model": model, "fed from": source, "workers": workers, "images/s": images / seconds,
                             "of files": rates[model, source] / rates[model, _FILES],
                             "data wait, % of step": 100 * waited / seconds,
                             "card": card, "torch": torch.__version__})  # fmt: skip
        # Before the server ends.
        hub.flush()
    return sorted(rows, key=lambda row: list(MODELS).index(row["model"]))


def _sources(
    local: Place, remote: Place, values: np.ndarray, scale: _Scale
) -> Iterator[tuple[str, Callable[[int], Epoch]]]:
    """Each source, files first, with what makes an epoch for a number of workers. One is used before the next is made."""
    yield _FILES, partial(_files, indexed_files(local, values), scale)
    for name, place, disk_bytes in (
        ("hubarray, folder", local, 0),
        ("hubarray, S3, cold", remote, 0),
        ("hubarray, S3, cached on disk", remote, 16 << 30),
    ):
        hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=disk_bytes)
        corner = place.corner("hubarray")
        OURS.create(corner, values, (1, *values.shape[1:]))
        stream = hub.load(NAME, root=root_of(corner)).to_pytorch(iterable=True, batch_size=scale.batch)
        yield name, partial(_ours, stream, scale)
    with contextlib.suppress(ImportError):
        yield "webdataset, files", partial(_webdataset, _shards(local, values), scale)


def _seconds(epoch: Epoch) -> float:
    """Of the last of a few epochs without a model."""
    for _ in range(_PROBES):
        began = time.perf_counter()
        for _ in epoch():
            pass
        seconds = time.perf_counter() - began
    return seconds


def _loader(dataset: Any, scale: _Scale, workers: int, **options: Any) -> Any:
    keep = {"persistent_workers": True} if workers else {}
    return DataLoader(dataset, num_workers=workers, pin_memory=scale.device == "cuda", **keep, **options)


def _files(dataset: Any, scale: _Scale, workers: int) -> Epoch:
    made = _loader(dataset, scale, workers, batch_size=scale.batch, shuffle=True)
    return lambda: iter(made)


def _ours(stream: Any, scale: _Scale, workers: int) -> Epoch:
    made = stream.loader(num_workers=workers, persistent_workers=workers > 0, pin_memory=scale.device == "cuda")

    def epoch() -> Iterator[Any]:
        cold()
        return iter(made)

    return epoch


def _shards(local: Place, values: np.ndarray) -> str:
    import webdataset

    folder, shards = local.corner("wds").folder, 16
    folder.mkdir(parents=True)
    for shard in range(shards):
        with webdataset.TarWriter(str(folder / f"{shard:03d}.tar")) as sink:
            for i in range(shard, len(values), shards):
                sink.write({"__key__": f"{i:06d}", "npy": values[i]})
    return f"{folder}/{{000..{shards - 1:03d}}}.tar"


def _webdataset(url: str, scale: _Scale, workers: int) -> Epoch:
    import webdataset

    stages = webdataset.WebDataset(url, shardshuffle=16).shuffle(256).decode().to_tuple("npy").batched(scale.batch)
    made = _loader(stages, scale, workers, batch_size=None)
    return lambda: (batch[0] for batch in made)


def _train(make_model: Callable[[int], Any], epoch: Epoch, scale: _Scale) -> tuple[float, float, int]:
    """Seconds of an epoch, those that the model waited for data, and images, without the first steps."""
    model = make_model(scale.crop).to(scale.device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    seconds = waited = 0.0
    images = 0
    mark = time.perf_counter()
    for step, batch in enumerate(epoch()):
        fetched = time.perf_counter()
        x = _crops(torch.as_tensor(batch).to(scale.device, non_blocking=True), scale.crop)
        with torch.autocast(scale.device, torch.bfloat16):
            answers = model(x)
            loss = torch.nn.functional.cross_entropy(answers, torch.zeros(len(x), dtype=torch.int64, device=x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if scale.device == "cuda":
            torch.cuda.synchronize()
        done = time.perf_counter()
        if step >= scale.warm_up:
            waited += fetched - mark
            seconds += done - mark
            images += len(x)
        mark = done
    return seconds, waited, images


def _crops(batch: Any, side: int) -> Any:
    """A random crop of each batch, as floats."""
    top, left = torch.randint(0, SIDE - side + 1, (2,)).tolist()
    crop = batch[:, top : top + side, left : left + side].permute(0, 3, 1, 2)
    return crop.float().div_(255).contiguous(memory_format=torch.channels_last)


class _Fire(nn.Module):
    """A block of SqueezeNet (Iandola et al., 2016, https://arxiv.org/abs/1602.07360)."""

    def __init__(self, before: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(before, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, expanded, 1)
        self.expand_wide = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Any) -> Any:
        squeezed = self.squeeze(x).relu()
        return torch.cat([self.expand(squeezed).relu(), self.expand_wide(squeezed).relu()], 1)


def _squeezenet(crop: int) -> Any:
    """Version 1.1, as torchvision has it."""
    fires = [(64, 16, 64), (128, 16, 64), None, (128, 32, 128), (256, 32, 128), None, (256, 48, 192), (384, 48, 192),
             (384, 64, 256), (512, 64, 256)]  # fmt: skip
    blocks = [nn.MaxPool2d(3, stride=2, ceil_mode=True) if fire is None else _Fire(*fire) for fire in (None, *fires)]
    return nn.Sequential(nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), *blocks, nn.Dropout(), nn.Conv2d(512, 1000, 1),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())  # fmt: skip


class _Logits(nn.Module):
    """A model of transformers that returns a tensor, as others do."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any) -> Any:
        return self.model(x).logits


def _resnet18(crop: int) -> Any:
    config = ResNetConfig(layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], num_labels=1000)
    return _Logits(ResNetForImageClassification(config))


def _vit_small(crop: int) -> Any:
    config = ViTConfig(hidden_size=384, num_attention_heads=6, intermediate_size=1536, num_labels=1000, image_size=crop)
    return _Logits(ViTForImageClassification(config))


MODELS: dict[str, Callable[[int], Any]] = {"ResNet-18": _resnet18, "SqueezeNet": _squeezenet, "ViT-S": _vit_small}
