"""Real digits, learned from a named array as well as from memory."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import hubarray as hub
from tests.optional import Optional

tf = Optional("tensorflow")
torch = Optional("torch")

TESTED = 300


@pytest.fixture
def digits(make_root):
    loaded = load_digits()
    order = np.random.default_rng(0).permutation(len(loaded.images))
    pixels, target = (loaded.images[order] / 16).astype("f4"), loaded.target[order].astype("i8")
    root = make_root("s3")
    images = hub.import_(pixels[:-TESTED], "digits/images:v1", root=root)
    labels = hub.import_(target[:-TESTED], "digits/labels:v1", root=root)
    return pixels, target, images, labels


def learned(batches, pixels, target, epochs=6):
    """Accuracy of a small network after some epochs of ``batches(epoch)``."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for epoch in range(epochs):
        for x, y in batches(epoch):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    result = model(torch.from_numpy(pixels[-TESTED:])).argmax(1).numpy()
    return float((result == target[-TESTED:]).mean())


def test_pytorch_learns_as_from_memory(digits):
    pixels, target, images, labels = digits

    def from_memory(epoch):
        order = np.random.default_rng(epoch).permutation(len(pixels) - TESTED)
        for first in range(0, len(order), 32):
            rows = order[first : first + 32]
            yield torch.from_numpy(pixels[rows]), torch.from_numpy(target[rows])

    loader = images.to_pytorch(labels, iterable=True, batch_size=32, seed=1).loader(num_workers=2)
    remote, local = learned(lambda epoch: loader, pixels, target), learned(from_memory, pixels, target)
    assert remote > 0.94
    assert remote > local - 0.03


def test_in_the_same_order_it_learns_exactly_the_same(digits):
    pixels, target, images, labels = digits
    stream = images.to_pytorch(labels, iterable=True, batch_size=32, shuffle=False)
    tensors = torch.from_numpy(pixels[:-TESTED]), torch.from_numpy(target[:-TESTED])
    in_memory = list(zip(tensors[0].split(32), tensors[1].split(32), strict=True))
    assert learned(lambda epoch: stream, pixels, target, 2) == learned(lambda epoch: in_memory, pixels, target, 2)


def test_tensorflow_learns_as_from_memory(digits):
    pixels, target, images, labels = digits

    def accuracy(dataset):
        tf.keras.utils.set_random_seed(0)
        model = tf.keras.Sequential(
            [tf.keras.layers.Flatten(), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
        model.fit(dataset, epochs=6, verbose=0)
        return model.evaluate(pixels[-TESTED:], target[-TESTED:], verbose=0)[1]

    remote = accuracy(images.to_tensorflow(labels, batch_size=32, shuffle=True))
    local = accuracy(
        tf.data.Dataset.from_tensor_slices((pixels[:-TESTED], target[:-TESTED])).shuffle(2000, seed=0).batch(32)
    )
    assert remote > 0.94
    assert remote > local - 0.03
