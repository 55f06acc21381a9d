"""Frameworks that deal out batches themselves: every row comes once, and a loop goes on exactly, or an error says how."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import hubarray as hub
from tests import forked
from tests.optional import Optional
from tests.servers import free_port

torch = Optional("torch")

IMPORTS = ("torch.distributed", "hubarray.interop.torch.stream", "accelerate", "lightning", "transformers.trainer")
ROWS = 203


@pytest.fixture
def place(tmp_path, root):
    """A stream's arrays, and what a program needs to make it."""
    hub.store(np.arange(ROWS * 4, dtype="float32").reshape(ROWS, 4), "t/x:v1", root=root)
    hub.store(np.arange(ROWS), "t/y:v1", root=root)
    return root


def stream_of(root, **options):
    x, y = (hub.load(name, root=root) for name in ("t/x:v1", "t/y:v1"))
    return x.to_pytorch(y, iterable=True, **({"batch_size": 8, "seed": 0} | options))


def rows_of(batches):
    return [int(i) for _, some in batches for i in some]


def ranks(program, root, world=2):
    """What each rank of a program prints last, or the errors of the first one that fails."""
    head = (
        "import json, os, sys, torch, torch.distributed as dist, hubarray as hub\n"
        f"root, rank, world = hub.Root({root.url!r}), int(sys.argv[1]), {world}\n"
        "os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))\n"
        "def make(**options):\n"
        "    x, y = hub.load('t/x:v1', root=root), hub.load('t/y:v1', root=root)\n"
        "    return x.to_pytorch(y, iterable=True, **({'batch_size': 8, 'seed': 0} | options))\n"
        "begin = lambda: dist.init_process_group('gloo')\n"
    )
    environment = os.environ | {
        "ACCELERATE_USE_CPU": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        "TOKENIZERS_PARALLELISM": "false",
    }  # fmt: skip
    ended = forked.run(
        [head + program] * world, arguments=[[str(rank)] for rank in range(world)], imports=IMPORTS,
        environment=environment, seconds=150,
    )  # fmt: skip
    failed = [item.errors for item in ended if item.status]
    return failed[0] if failed else [json.loads(item.output.strip().splitlines()[-1]) for item in ended]


def check_epoch(seen):
    """Each row at most once, less than a global batch missing, and equally many batches on each rank."""
    every = [i for rank in seen for batch in rank for i in batch]
    assert len(every) == len(set(every)) > ROWS - 16
    assert len({len(rank) for rank in seen}) == 1


ACCELERATED = """
begin()
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
"""


def test_accelerate_leaves_the_loader_of_a_stream_as_it_is(place, tmp_path):
    from accelerate import Accelerator

    loader = stream_of(place).loader()
    accelerator = Accelerator(cpu=True)
    assert accelerator.prepare(loader) is loader
    assert sorted(rows_of(loader)) == list(range(ROWS))
    seen = [rows_of([batch]) for _, batch in zip(range(5), loader, strict=False)]
    accelerator.save_state(str(tmp_path / "state"))
    again = Accelerator(cpu=True)
    resumed = again.prepare(stream_of(place).loader())
    again.load_state(str(tmp_path / "state"))
    assert sorted([i for batch in seen for i in batch] + rows_of(resumed)) == list(range(ROWS))


def test_batches_that_accelerate_skips_are_those_of_the_loader(place):
    from accelerate import skip_first_batches

    whole = [rows_of([batch]) for batch in stream_of(place).loader()]
    loader = stream_of(place).loader()
    assert [rows_of([batch]) for batch in skip_first_batches(loader, 5)] == whole[5:]


@pytest.mark.timeout(200)
def test_every_row_is_seen_once_on_two_ranks_of_accelerate(place):
    program = ACCELERATED + (
        "loader = accelerator.prepare(make().loader())\nprint(json.dumps([[int(i) for i in y] for _, y in loader]))\n"
    )
    check_epoch(ranks(program, place))


@pytest.mark.timeout(200)
@pytest.mark.parametrize("context", [None, "spawn"])
def test_rows_that_accelerate_would_deal_out_again_are_refused_with_the_lines_to_write(place, tmp_path, context):
    workers = "" if context is None else f", num_workers=1, multiprocessing_context={context!r}"
    program = ACCELERATED + (
        "from torch.utils.data import DataLoader\n"
        "if __name__ == '__main__':\n"
        f"    loader = accelerator.prepare(DataLoader(make(), batch_size=None{workers}))\n"
        "    print(len(list(loader)))\n"
    )
    errors = ranks(program, place)
    assert "iterate stream.loader(num_workers=...), which accelerator.prepare leaves as it is" in errors


@pytest.mark.timeout(200)
def test_a_stream_that_was_made_before_the_ranks_were_known_is_refused(place):
    program = "loader = make().loader()\nbegin()\nprint(len(list(loader)))\n"
    assert "made before torch.distributed was initialized" in ranks(program, place)
    program = "loader = make(rank=rank, world_size=world).loader()\nbegin()\n"
    program += "print(json.dumps([[int(i) for i in y] for _, y in loader]))\n"
    check_epoch(ranks(program, place))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_of_torchdata_goes_on_exactly(place, workers):
    from torchdata.stateful_dataloader import StatefulDataLoader

    def made():
        return StatefulDataLoader(stream_of(place), batch_size=None, num_workers=workers)

    whole = rows_of(made())
    assert sorted(whole) == list(range(ROWS))
    loader = made()
    iterator = iter(loader)
    before = rows_of(next(iterator) for _ in range(5))
    state = json.loads(json.dumps(loader.state_dict())) if not workers else loader.state_dict()
    resumed = made()
    resumed.load_state_dict(state)
    assert before + rows_of(resumed) == whole


def test_a_stateful_loader_goes_on_in_a_later_epoch_and_into_the_next(place):
    from torchdata.stateful_dataloader import StatefulDataLoader

    def made():
        return StatefulDataLoader(stream_of(place), batch_size=None)

    loader = made()
    epochs = [rows_of(loader) for _ in range(3)]
    loader = made()
    assert rows_of(loader) == epochs[0]
    iterator = iter(loader)
    before = rows_of(next(iterator) for _ in range(5))
    resumed = made()
    resumed.load_state_dict(loader.state_dict())
    assert before + rows_of(resumed) == epochs[1]
    assert rows_of(resumed) == epochs[2]


@pytest.mark.parametrize("told", [{}, {"loop": 1, "given": 0}, {"loop": {}, "given": 0}, {"loop": {}, "given": -1}, 7])
def test_what_is_no_state_of_a_stream_is_refused(place, told):
    with pytest.raises(hub.errors.ConfigError, match="not a state"):
        stream_of(place).load_state_dict(told)


def lightning_module(seen):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, number):
            seen.append(batch[1].tolist())
            return self.layer(batch[0]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.0)

    return Module()


def trainer(folder, **options):
    import lightning

    return lightning.Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=folder, **options,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_lightning_sees_each_row_once_and_goes_on_in_the_middle_of_an_epoch(place, tmp_path):
    from lightning.pytorch.callbacks import ModelCheckpoint

    steps = -(-ROWS // 8) + 5
    whole, after = [], []
    kept = ModelCheckpoint(dirpath=tmp_path, filename="middle", every_n_train_steps=steps, save_top_k=-1)
    trainer(tmp_path, max_epochs=2, callbacks=[kept]).fit(lightning_module(whole), stream_of(place).loader())
    assert sorted(i for batch in whole[: len(whole) // 2] for i in batch) == list(range(ROWS))
    trainer(tmp_path, max_epochs=2, enable_checkpointing=False).fit(
        lightning_module(after), stream_of(place).loader(), ckpt_path=tmp_path / "middle.ckpt", weights_only=False
    )
    assert whole[:steps] + after == whole


LIGHTNING = """
import lightning
seen = []
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def train_dataloader(self):
        return make().loader()
    def training_step(self, batch, number):
        seen.append(batch[1].tolist())
        return self.layer(batch[0]).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.0)
trainer = lightning.Trainer(accelerator="cpu", devices=1, num_nodes=2, strategy="ddp", max_epochs=1, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
"""


@pytest.mark.timeout(200)
def test_every_row_is_seen_once_on_two_ranks_of_lightning(place):
    set_up = "os.environ.update(NODE_RANK=str(rank), LOCAL_RANK='0')\n"
    check_epoch(ranks(set_up + LIGHTNING + "trainer.fit(Module())\nprint(json.dumps(seen))\n", place))
    early = "trainer.fit(Module(), loader)\nprint(json.dumps(seen))\n"
    errors = ranks(f"loader = make().loader()\n{set_up}{LIGHTNING}{early}", place)
    assert "made before torch.distributed was initialized" in errors


# The lines of the page for Trainer.
PAGE = (Path(hub.__file__).parents[1] / "docs" / "how-to" / "frameworks.md").read_text()
(TRAINER,) = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "class StreamTrainer" in code]
HUGGING_FACE = (
    f"code_of_the_page = {TRAINER!r}"
    + """
import torch, transformers
seen = []
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x, y):
        seen.append(y.tolist())
        return {"loss": self.layer(x).mean()}
exec(code_of_the_page)
options = transformers.TrainingArguments(
    "{folder}", num_train_epochs=2, per_device_train_batch_size=8, use_cpu=True, report_to=[], save_steps=31,
    disable_tqdm=True, logging_strategy="no", ignore_data_skip=True, remove_unused_columns=False, learning_rate=0.0,
)
"""
)


@pytest.mark.timeout(200)
def test_every_row_is_seen_once_by_hugging_faces_trainer_and_it_goes_on_exactly(place, tmp_path):
    program = HUGGING_FACE.replace("{folder}", str(tmp_path)) + (
        "stream = lambda: make(transform=lambda row: {'x': row[0], 'y': row[1]})\n"
        "StreamTrainer(Model(), options, train_dataset=stream()).train()\n"
        "whole, seen = seen, []\n"
        f"StreamTrainer(Model(), options, train_dataset=stream()).train(resume_from_checkpoint={str(tmp_path / 'checkpoint-31')!r})\n"
        "print(json.dumps([whole, seen]))\n"
    )
    result = ranks(program, place, world=1)
    assert isinstance(result, list), result
    ((whole, after),) = result
    assert sorted(i for batch in whole[: len(whole) // 2] for i in batch) == list(range(ROWS))
    assert whole[:31] + after == whole


@pytest.mark.timeout(200)
def test_ranks_of_hugging_faces_trainer_see_each_row_once_or_are_told_how(place, tmp_path):
    program = HUGGING_FACE.replace("{folder}", str(tmp_path)).replace("num_train_epochs=2", "num_train_epochs=1")
    program += "stream = make(transform=lambda row: {'x': row[0], 'y': row[1]})\n"
    end = "(Model(), options, train_dataset=stream).train()\nprint(json.dumps(seen))\n"
    check_epoch(ranks(f"{program}StreamTrainer{end}", place))
    errors = ranks(f"{program}transformers.Trainer{end}", place)
    assert "iterate stream.loader(num_workers=...)" in errors
