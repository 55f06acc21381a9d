"""Arrays drawn with matplotlib: what people most likely want to see of a few elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hubarray.arrays.handle import ArrayHandle
from hubarray.errors import ConfigError
from hubarray.extras import needed
from hubarray.interop.pictures import colours, recognition
from hubarray.interop.statistics.lazy import LazyView
from hubarray.redaction import shown_text

MAX_BYTES = 256 << 20
_MAX_IMAGES = 16
_MAX_CURVES = 8
_MAX_TOLD = 4
_MAX_POINTS = 100_000
_MAX_PIXELS = 2000


def show(array: ArrayHandle, key: Any = ..., *, ax: Any = None, **options: Any) -> Any:
    """See :meth:`hubarray.Array.show`."""
    needed("matplotlib", extra="plots", why="show")
    import matplotlib.pyplot as plt

    shape = LazyView(array)[key].shape
    size = math.prod(shape) * array.dtype.itemsize
    if size > MAX_BYTES:
        raise ConfigError(f"that is {size:,} bytes, and {MAX_BYTES >> 20} MiB are drawn; take less, such as a.show(0)")
    values = np.asarray(array[key])
    try:
        real = colours.real_values(values, "abs")
    except ValueError as error:
        raise ConfigError(f"{array.name}:{array.version}: {error}") from None
    title = f"{array.name}:{array.version}[{_shown(key)}]"
    if not real.size:
        raise ConfigError(f"{title}: has no elements to draw")
    pictures = _pictures(real)
    if pictures is None:
        both = {"real": values.real, "imag": values.imag} if values.dtype.kind == "c" else {"": real}
        if values.dtype.kind == "M":
            both = {"": values}
        return _curves(plt, both, ax, title, options)
    if len(pictures) == 1:
        axes = [ax or plt.figure().add_subplot()]
    elif ax is not None:
        raise ConfigError(f"{title}: is {len(pictures)} images, and ax= takes one; choose one of them")
    else:
        columns = math.ceil(math.sqrt(len(pictures)))
        figure, grid = plt.subplots(math.ceil(len(pictures) / columns), columns, squeeze=False, layout="constrained")
        axes = list(grid.flat)
        for axes_left in axes[len(pictures) :]:
            axes_left.set_axis_off()
        figure.suptitle(title)
    for panel, (name, picture) in zip(axes, pictures, strict=False):
        # What is no number is seen, as in the viewer.
        defaults: dict[str, Any] = (
            {"cmap": plt.get_cmap("gray").with_extremes(bad="magenta")} if picture.ndim == 2 else {}
        )
        # Of a huge image as many pixels as are seen, at the places of those that it has.
        step = max(1, max(picture.shape[:2]) // _MAX_PIXELS)
        if step > 1:
            height, width = picture.shape[:2]
            defaults["extent"] = (-0.5, width - 0.5, height - 0.5, -0.5)
        panel.imshow(picture[::step, ::step], **(defaults | options))
        panel.set_title(name or (title if len(pictures) == 1 else ""))
        panel.set_xticks([])
        panel.set_yticks([])
    return axes[0].figure


def show_row(handle: Any, at: int, columns: Any = None) -> Any:
    """See :meth:`hubarray.Table.show` and :meth:`hubarray.Dataset.show`."""
    needed("matplotlib", extra="plots", why="show")
    import matplotlib.pyplot as plt
    from matplotlib import patches

    row = handle.loader().get_row(at, columns) if handle.kind == "table" else handle.rows(at, columns)
    values = {name: value for name, value in row.items() if isinstance(value, np.ndarray) and value.ndim}
    title = f"{handle.name}:{handle.version}, row {at}"
    boxes = [name for name, value in values.items() if recognition.are_boxes(name, value.shape)]
    pictures = [name for name, value in values.items() if recognition.is_image(value)]
    clouds = {name for name, value in values.items() if recognition.is_cloud(name, value)}
    drawn = {
        name: value
        for name, value in values.items()
        if name in clouds or recognition.is_image(value) or _is_curve(value)
    }
    drawn = dict(list(drawn.items())[:_MAX_IMAGES])
    if not drawn:
        raise ConfigError(f"{title}: has no image, no points and no curve; its fields are {', '.join(row)}"[:300])
    columns_ = math.ceil(math.sqrt(len(drawn)))
    figure, grid = plt.subplots(math.ceil(len(drawn) / columns_), columns_, squeeze=False, layout="constrained")
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, (name, value) in zip(grid.flat, drawn.items(), strict=False):
        axes.set_title(name)
        if name in clouds:
            points = recognition.cloud(value, _MAX_POINTS)
            axes.set_axis_on()
            axes.set_aspect("equal")
            axes.scatter(points[:, 0], points[:, 1], c=points[:, 3], s=1, linewidths=0)
            continue
        if not recognition.is_image(value):
            axes.set_axis_on()
            axes.plot(value)
            continue
        axes.imshow(_as_colours(value), cmap="gray")
        own = recognition.belonging(name, boxes, pictures)
        for left, top, right, bottom in (box for boxes in own for box in values[boxes].tolist()):
            axes.add_patch(patches.Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor="tab:red"))
    scalars = {name: value for name, value in row.items() if name not in values and not isinstance(value, bytes)}
    text = ", ".join(f"{name} {shown_text(str(value))[:30]}" for name, value in list(scalars.items())[:_MAX_TOLD])
    figure.suptitle(f"{title}\n{text}" if text else title)
    return figure


def _is_curve(value: np.ndarray) -> bool:
    return value.ndim == 1 and value.dtype.kind in "buif" and len(value) > _MAX_CURVES


def _shown(key: Any) -> str:
    """A key as it is written between brackets.

    Examples
    --------
    >>> _shown((0, slice(2, None), ...))
    '0, 2:, ...'
    """
    if isinstance(key, tuple):
        return ", ".join(map(_shown, key))
    if isinstance(key, slice):
        first, end = ("" if bound is None else str(bound) for bound in (key.start, key.stop))
        return f"{first}:{end}" + ("" if key.step is None else f":{key.step}")
    return "..." if key is ... else str(key)[:40]


def _pictures(values: np.ndarray) -> list[tuple[str, np.ndarray]] | None:
    """The images in some values, each with a name; None where there are none."""
    squeezed = values
    while squeezed.ndim > 2 and squeezed.shape[0] == 1:
        squeezed = squeezed[0]
    if recognition.is_image(squeezed):
        return [("", _as_colours(squeezed))]
    if squeezed.ndim == 4 and recognition.is_image(squeezed[0]):
        return [(str(i), _as_colours(image)) for i, image in enumerate(squeezed[:_MAX_IMAGES])]
    if squeezed.ndim == 3 and min(squeezed.shape[1:]) > 1:
        if len(squeezed) <= _MAX_IMAGES:
            return [(str(i), image) for i, image in enumerate(squeezed)]
        middle = [n // 2 for n in squeezed.shape]
        return [
            (f"[{middle[0]}, :, :]", squeezed[middle[0]]), (f"[:, {middle[1]}, :]", squeezed[:, middle[1]]),
            (f"[:, :, {middle[2]}]", squeezed[:, :, middle[2]]),
        ]  # fmt: skip
    is_picture = (
        squeezed.ndim == 2 and min(squeezed.shape) > _MAX_CURVES and not recognition.are_signals(*squeezed.shape)
    )
    return [("", squeezed)] if is_picture else None


def _as_colours(image: np.ndarray) -> np.ndarray:
    if image.ndim == 2:
        return image
    if image.shape[2] == 1:
        return image[..., 0]
    return image if image.dtype == np.uint8 else recognition.pixels(image)


def _curves(plt: Any, curves: dict[str, np.ndarray], ax: Any, title: str, options: dict[str, Any]) -> Any:
    shape = next(iter(curves.values())).shape
    turned = len(shape) == 2 and (shape[0] <= _MAX_CURVES < shape[1] or recognition.are_signals(*shape))
    if len(shape) > 2 or (len(shape) == 2 and not turned and shape[1] > _MAX_CURVES):
        raise ConfigError(f"{title}: of the shape {shape}, which is not an image, curve or volume; choose a part")
    axes = ax or plt.figure().add_subplot()
    for name, values in curves.items():
        marker = {} if values.ndim else {"marker": "o"}
        label = {"label": name} if name else {}
        axes.plot(values.T if turned else values if values.ndim else values[np.newaxis], **(marker | label | options))
    if any(curves):
        axes.legend()
    axes.set_title(title)
    return axes.figure
