"""The benchmark of training runs with a small model."""


def test_every_source_feeds_a_model_with_all_images(monkeypatch):
    # Both are slow to import, and absent where this test is left out.
    from torch import nn

    from benchmarks import training

    models = {"small": lambda crop: nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 10))}
    monkeypatch.setattr(training, "MODELS", models)
    scale = training._Scale("cpu", batch=8, crop=32, workers=(0,), warm_up=1)
    monkeypatch.setattr(training._Scale, "of_this_machine", lambda: scale)
    rows = training.training(6)
    sources = [row["fed from"] for row in rows]
    assert sources[:4] == [
        "files, DataLoader",
        "hubarray, folder",
        "hubarray, S3, cold",
        "hubarray, S3, cached on disk",
    ]
    assert all(row["images/s"] > 0 and 0 <= row["data wait, % of step"] < 100 for row in rows)
