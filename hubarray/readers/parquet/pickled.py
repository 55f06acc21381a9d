"""The schema that Petastorm pickled, read without unpickling: nothing that the data names is imported or run.

A pickle is a program that calls what it names. Here it may name the few dozen classes that a Unischema is made of, and
each name stands for a record that only remembers what it was given; the field's types are looked up afterwards in a
table. Any other name is refused.
"""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from hubarray.arrays.codecs.foreign_dtypes import dtype_of
from hubarray.errors import SourceError
from hubarray.readers.fields.cell_codecs import (
    CompressedImageCodec,
    CompressedNdarrayCodec,
    FieldCodec,
    NdarrayCodec,
    ScalarCodec,
)
from hubarray.readers.fields.unischema import MAX_FIELDS, Unischema, UnischemaField, is_shape, name_of

MAX_PICKLE_BYTES = 16 << 20
MAX_OPCODES = 2 << 20
MAX_OBJECT_BYTES = 256 << 20
_MAX_CLASSES = 4096
_MAX_INT_TEXT = 24
# Petastorm was called dataset-toolkit before 0.4, and moved its modules about.
_PACKAGES = ("petastorm", "dataset_toolkit", "av.experimental.deepdrive.dataset_toolkit", "av.ml.dataset_toolkit")
_NUMPY_TYPES: dict[str, Any] = {
    name: np.dtype(name).type
    for name in (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
        "complex64", "complex128",
    )
} | {
    "bool_": np.bool_, "bool": np.bool_, "bool8": np.bool_, "unicode_": np.str_, "str_": np.str_, "string_": np.bytes_,
    "bytes_": np.bytes_, "datetime64": np.datetime64, "timedelta64": np.timedelta64, "object_": np.object_,
    "float_": np.float64, "int_": np.int64, "str": np.str_,
}  # fmt: skip
_BUILTINS = {
    "str": np.str_, "unicode": np.str_, "bytes": np.bytes_, "int": np.int64, "float": np.float64, "bool": np.bool_,
}  # fmt: skip
_CODECS = {"ScalarCodec", "NdarrayCodec", "CompressedNdarrayCodec", "CompressedImageCodec"}
_INERT_FUNCTIONS = {
    ("copy_reg", "_reconstructor"), ("copyreg", "_reconstructor"), ("copyreg", "__newobj__"),
    ("pyspark.serializers", "_restore"), ("numpy.core.multiarray", "scalar"), ("numpy._core.multiarray", "scalar"),
}  # fmt: skip


class _Record:
    """A stand-in for an object of the pickle: the name of its class, and what it was given."""

    kind = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> _Record:
        made = object.__new__(cls)
        made.args, made.state = args, {}
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    args: tuple[Any, ...]
    state: dict[str, Any]

    def __setstate__(self, state: Any) -> None:
        # With slots, a pair of two dictionaries.
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:
            if isinstance(part, dict):
                self.state.update({_text(key): value for key, value in part.items()})

    def __setitem__(self, key: Any, value: Any) -> None:
        self.state[_text(key)] = value

    def append(self, value: Any) -> None:
        """Items of a list's subclass are of no use here."""

    def extend(self, values: Any) -> None:
        """As :meth:`append`."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class _Type:
    """A stand-in for a type that is a value: of a field, or of what a codec stores."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


@functools.lru_cache(_MAX_CLASSES)
def _record_class(module: str, name: str) -> type[_Record]:
    return type(name, (_Record,), {"kind": f"{module}.{name}"})


def _call(name: str) -> Any:
    """A stand-in for a function: it makes records of its arguments."""

    def reconstructed(cls: Any = None, *rest: Any) -> Any:
        if not (isinstance(cls, type) and issubclass(cls, _Record)):
            raise pickle.UnpicklingError(f"{name} of an unknown class")
        arguments_left = rest[1:] if name == "_reconstructor" else rest
        # A tuple's subclass is made of its items.
        items = (
            arguments_left[0]
            if len(arguments_left) == 1 and isinstance(arguments_left[0], (tuple, list))
            else arguments_left
        )
        return cls(*items)

    def restored(kind: Any = "", fields: Any = (), values: Any = ()) -> Any:
        made = _record_class("namedtuple", "restored")(*values)
        made.state = {_text(key): value for key, value in zip(fields, values, strict=False)}
        made.state["namedtuple"] = _text(kind)
        return made

    def number(dtype: Any = None, data: Any = b"") -> Any:
        return None

    return {"_restore": restored, "scalar": number}.get(name, reconstructed)


class _Tuple(tuple[Any, ...]):
    """A tuple that is hashed as an object: by its items, one that holds itself many times over takes without end."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return "a tuple"


_Key = (str, int, float, bool, bytes, type(None))
# About what the object takes that an opcode makes; of a mark more, as each is a stack that the collector walks. Those
# that are not here are refused: sets, frozensets, bytearrays, buffers, extensions and persistent ids, which no schema
# and no index needs.
_COSTS: dict[bytes, int] = {
    pickle.MARK: 320, pickle.STOP: 0, pickle.POP: 0, pickle.POP_MARK: 0, pickle.DUP: 8, pickle.PROTO: 0,
    pickle.FRAME: 64, pickle.NONE: 8, pickle.NEWTRUE: 8, pickle.NEWFALSE: 8, pickle.INT: 40, pickle.BININT: 40,
    pickle.BININT1: 40, pickle.BININT2: 40, pickle.LONG: 40, pickle.LONG1: 40, pickle.FLOAT: 32, pickle.BINFLOAT: 32,
    pickle.STRING: 64, pickle.BINSTRING: 64, pickle.SHORT_BINSTRING: 64, pickle.UNICODE: 64, pickle.BINUNICODE: 64,
    pickle.SHORT_BINUNICODE: 64, pickle.BINUNICODE8: 64, pickle.BINBYTES: 64, pickle.SHORT_BINBYTES: 64,
    pickle.BINBYTES8: 64, pickle.EMPTY_LIST: 64, pickle.LIST: 64, pickle.APPEND: 16, pickle.APPENDS: 16,
    pickle.EMPTY_DICT: 72, pickle.DICT: 240, pickle.SETITEM: 110, pickle.SETITEMS: 16, pickle.EMPTY_TUPLE: 56,
    pickle.TUPLE: 64, pickle.TUPLE1: 64, pickle.TUPLE2: 72, pickle.TUPLE3: 80, pickle.GET: 8, pickle.BINGET: 8,
    pickle.LONG_BINGET: 8, pickle.PUT: 110, pickle.BINPUT: 110, pickle.LONG_BINPUT: 110, pickle.MEMOIZE: 110,
    pickle.GLOBAL: 64, pickle.STACK_GLOBAL: 64, pickle.REDUCE: 640, pickle.BUILD: 240, pickle.INST: 640,
    pickle.OBJ: 640, pickle.NEWOBJ: 640, pickle.NEWOBJ_EX: 640,
}  # fmt: skip


def _run_of(opcode: bytes) -> Any:
    """The function that pickle itself runs at an opcode."""
    return pickle._Unpickler.dispatch[opcode[0]]


def _refused(self: Any) -> None:
    raise pickle.UnpicklingError("it has an opcode that no schema and no index needs")


class _Inert(pickle._Unpickler):
    """The unpickler that is written in Python: its opcodes can be changed, and its memo takes what is put there.

    An opcode runs only if it is in the list above, and what it makes is counted before it runs.
    """

    dispatch: ClassVar[dict[int, Any]] = {}
    stack: list[Any]
    append: Any
    pop_mark: Any
    read: Any
    readline: Any

    def __init__(self, data: bytes, *, encoding: str) -> None:
        super().__init__(io.BytesIO(data), encoding=encoding)
        self._opcodes = 0
        # Letters and bytes are in the pickle itself, and once more in what is made of it.
        self._left_bytes = MAX_OBJECT_BYTES - 2 * len(data)

    def _spend(self, cost: int) -> None:
        self._opcodes += 1
        self._left_bytes -= cost
        if self._opcodes > MAX_OPCODES or self._left_bytes < 0:
            raise pickle.UnpicklingError("it makes more objects than are read")

    def _tuple_of_marked(self) -> None:
        # Which gives the stack back that is appended to.
        items = self.pop_mark()
        self.append(_Tuple(items))

    def _tuple_of_last(self, count: int) -> None:
        self.stack[-count:] = [_Tuple(self.stack[-count:])]

    def _build(self) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], _Record):
            raise pickle.UnpicklingError("it changes an object that it did not create")
        parts = state if isinstance(state, tuple) else (state,)
        self._spend(64 * len(parts) + sum(110 * len(part) for part in parts if isinstance(part, dict)))
        self.stack[-1].__setstate__(state)

    def _set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, (dict, _Record)):
            raise pickle.UnpicklingError("it changes an object that it did not create")
        self._spend(110 * (len(items) // 2))
        for key, value in zip(items[::2], items[1::2], strict=True):
            # What else may be a key can take without end to be compared.
            if type(key) not in _Key:
                raise pickle.UnpicklingError("a key is neither text nor a number")
            target[key] = value

    def _set_item(self) -> None:
        items = [self.stack.pop(), self.stack.pop()]
        self._set_items(items[::-1])

    def _set_marked(self) -> None:
        items = self.pop_mark()
        self._set_items(items)

    def _dict_of_marked(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._set_items(items)

    def _int_of_text(self) -> None:
        line = self.readline()[:-1]
        if line in (b"00", b"01"):
            self.append(line == b"01")
            return
        if len(line) > _MAX_INT_TEXT:
            raise pickle.UnpicklingError("it has a number of more than 64 bits")
        self.append(_int64(int(line.rstrip(b"L"))))

    def _int_of_bytes(self) -> None:
        data = self.read(self.read(1)[0])
        self.append(_int64(int.from_bytes(data, "little", signed=True)))

    def _reduce(self) -> None:
        arguments = self.stack.pop()
        function = self.stack[-1]
        if not isinstance(arguments, tuple) or not callable(function):
            raise pickle.UnpicklingError("it calls an object that cannot be called")
        # Some make a list or text of what they are given anew, and all keep what they were given.
        self._spend(64 * len(arguments))
        self._spend(
            sum(110 * len(argument) for argument in arguments if isinstance(argument, (list, tuple, dict, str, bytes)))
        )
        self.stack[-1] = function(*arguments)

    def _new_object(self) -> None:
        arguments = self.stack[-1]
        if not isinstance(arguments, tuple):
            raise pickle.UnpicklingError("it makes an object of no arguments")
        self._spend(64 * len(arguments))
        _run_of(pickle.NEWOBJ)(self)

    def _new_object_of_names(self) -> None:
        named, arguments = self.stack[-1], self.stack[-2]
        if not isinstance(named, dict) or not isinstance(arguments, tuple):
            raise pickle.UnpicklingError("it makes an object of no arguments")
        self._spend(110 * len(named) + 64 * len(arguments))
        _run_of(pickle.NEWOBJ_EX)(self)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _INERT_FUNCTIONS:
            return _call(name)
        if (module, name) == ("collections", "OrderedDict"):
            return _ordered
        if module in ("__builtin__", "builtins") and name in ("object", "tuple", "dict", "list"):
            return _record_class("builtins", name)
        if module in ("__builtin__", "builtins") and name in _BUILTINS:
            return _Type("builtins", name)
        if module == "numpy" and name in _NUMPY_TYPES:
            return _Type("numpy", name)
        if (module, name) == ("numpy", "dtype"):
            return _record_class("numpy", "dtype")
        if (module, name) == ("decimal", "Decimal"):
            return _Type("decimal", name)
        if module == "pyspark.sql.types" and name.endswith("Type") and name.isidentifier():
            return _record_class(module, name)
        if any(module == package or module.startswith(f"{package}.") for package in _PACKAGES) and (
            name in _CODECS or name in ("Unischema", "UnischemaField")
        ):
            return _record_class("petastorm", name)
        raise pickle.UnpicklingError(f"it names {module}.{name}, which no schema is made of")


def _counted(run: Callable[[Any], None], cost: int) -> Callable[[Any], None]:
    def counted(self: _Inert) -> None:
        self._spend(cost)
        run(self)

    return counted


_CHANGED: dict[bytes, Callable[[Any], None]] = {
    pickle.TUPLE: _Inert._tuple_of_marked,
    pickle.EMPTY_TUPLE: lambda self: self.append(_Tuple()),
    pickle.TUPLE1: lambda self: self._tuple_of_last(1),
    pickle.TUPLE2: lambda self: self._tuple_of_last(2),
    pickle.TUPLE3: lambda self: self._tuple_of_last(3),
    pickle.BUILD: _Inert._build,
    pickle.SETITEM: _Inert._set_item,
    pickle.SETITEMS: _Inert._set_marked,
    pickle.DICT: _Inert._dict_of_marked,
    pickle.INT: _Inert._int_of_text,
    pickle.LONG: _Inert._int_of_text,
    pickle.LONG1: _Inert._int_of_bytes,
    pickle.REDUCE: _Inert._reduce,
    pickle.NEWOBJ: _Inert._new_object,
    pickle.NEWOBJ_EX: _Inert._new_object_of_names,
}
for _opcode in range(256):
    _name = bytes([_opcode])
    if _name in _COSTS:
        _run = _CHANGED.get(_name) or pickle._Unpickler.dispatch[_opcode]
        # STOP ends the loop by an exception of pickle's own.
        _Inert.dispatch[_opcode] = _counted(_run, _COSTS[_name])
    else:
        _Inert.dispatch[_opcode] = _refused


def _int64(number: int) -> int:
    if not -(1 << 63) <= number < 1 << 64:
        raise pickle.UnpicklingError("it has a number of more than 64 bits")
    return number


def _text(value: Any) -> str:
    """Text as it is; making text of something else may take without end."""
    if not isinstance(value, str):
        raise ValueError("a name is not text")
    return value


def _ordered(items: Any = ()) -> dict[Any, Any]:
    return {_text(key): value for key, value in items}


def pickled_schema(data: bytes, where: str) -> Unischema:
    """The Unischema of a pickle that Petastorm 0.4 or later wrote, whatever the pickle's protocol.

    Raises
    ------
    SourceError
        The pickle is damaged, or names anything that no schema is made of: it is not run.
    """
    if len(data) > MAX_PICKLE_BYTES:
        raise SourceError(f"{where}: its pickled schema takes {len(data):,} bytes, more than is read")
    try:
        inert = _Inert(data, encoding="utf-8").load()
        return _schema(inert)
    except SourceError:
        raise
    except Exception as error:
        # Whatever a damaged pickle leads to: the reasons are as many as its opcodes.
        raise SourceError(
            f"{where}: its pickled schema was refused: {str(error)[:200]}. Nothing ran; `hubarray petastorm metadata` "
            "writes a new one from a schema in Python"
        ) from None


def _schema(value: Any) -> Unischema:
    if not isinstance(value, _Record) or value.kind != "petastorm.Unischema":
        raise ValueError("it is not a Unischema")
    fields = value.state.get("_fields")
    if not isinstance(fields, Mapping) or len(fields) > MAX_FIELDS:
        raise ValueError("it has no fields")
    return Unischema(name_of(_text(value.state.get("_name", "schema"))), [_field(field) for field in fields.values()])


def _field(value: Any) -> UnischemaField:
    if not isinstance(value, _Record):
        raise ValueError("a field is not a field")
    named = value.state if "name" in value.state else dict(
        zip(UnischemaField._fields, value.args, strict=False)
    )  # fmt: skip
    name, shape = named.get("name"), named.get("shape")
    if not isinstance(name, str) or not isinstance(shape, (tuple, list)):
        raise ValueError("a field has no name or shape")
    if not is_shape(shape):
        raise ValueError(f"field {name[:80]!r} has a shape that cannot be")
    return UnischemaField(
        name, _type(named.get("numpy_dtype"), name), tuple(shape), _codec(named.get("codec")),
        bool(named.get("nullable", False)),
    )  # fmt: skip


def _type(value: Any, name: str) -> Any:
    if isinstance(value, _Type):
        if value.module == "decimal":
            return Decimal
        return (_NUMPY_TYPES if value.module == "numpy" else _BUILTINS)[value.name]
    if isinstance(value, _Record) and value.kind == "numpy.dtype" and value.args and isinstance(value.args[0], str):
        dtype = dtype_of(value.args[0])
        if not dtype.hasobject:
            return dtype.type
    raise ValueError(f"field {name[:80]!r} is of a type that is not known")


def _spark_type(value: Any) -> str | None:
    if not isinstance(value, _Record):
        return None
    named, digits = value.kind.rpartition(".")[2], (value.state.get("precision"), value.state.get("scale"))
    return f"{named}({digits[0]},{digits[1]})" if all(type(n) is int for n in digits) else named


def _codec(value: Any) -> FieldCodec | None:
    if value is None:
        return None
    if not isinstance(value, _Record):
        raise ValueError("a codec is not a codec")
    kind = value.kind.rpartition(".")[2]
    if kind == "ScalarCodec":
        return ScalarCodec(_spark_type(value.state.get("_spark_type")))
    if kind == "NdarrayCodec":
        return NdarrayCodec()
    if kind == "CompressedNdarrayCodec":
        return CompressedNdarrayCodec()
    if kind == "CompressedImageCodec":
        quality = value.state.get("_quality", 80)
        return CompressedImageCodec(
            _text(value.state.get("_image_codec", "png")), quality if type(quality) is int else 80
        )
    raise ValueError(f"there is no codec {value.kind[:80]!r}")


class _InertIndexes(_Inert):
    """Indexes of row groups: dictionaries of values, which are NumPy's, to sets of numbers, which are lists here."""

    dispatch: ClassVar[dict[int, Any]] = dict(_Inert.dispatch)

    def _numbers_of_marked(self) -> None:
        items = self.pop_mark()
        if not isinstance(self.stack[-1], list) or not all(type(item) is int for item in items):
            raise pickle.UnpicklingError("a set holds values other than numbers")
        self.stack[-1].extend(items)

    dispatch[pickle.EMPTY_SET[0]] = _counted(lambda self: self.append([]), 64)
    dispatch[pickle.ADDITEMS[0]] = _counted(_numbers_of_marked, 16)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "defaultdict"):
            return lambda *_: {}
        if module in ("__builtin__", "builtins") and name == "set":
            return lambda items=(): list(items)
        if name == "scalar" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return _scalar
        if (module, name) == ("_codecs", "encode"):
            # Python 3's bytes in a pickle that Python 2 can read.
            return lambda text="", codec="latin1": _text(text).encode("latin1")
        if name in ("SingleFieldIndexer", "FieldNotNullIndexer") and module.startswith(_PACKAGES):
            return _record_class("petastorm", name)
        return super().find_class(module, name)


def _scalar(dtype: Any = None, data: Any = b"") -> Any:
    """A number or text of NumPy, from its bytes."""
    dtype_name = dtype.args[0] if isinstance(dtype, _Record) and dtype.args else None
    kind = dtype_of(dtype_name) if isinstance(dtype_name, str) else np.dtype("O")
    if kind.kind not in "biufUS":
        raise pickle.UnpicklingError("a value that is indexed is neither text nor a number")
    if not isinstance(data, (str, bytes)):
        raise pickle.UnpicklingError("a value that is indexed has no bytes")
    held = data.encode("latin1") if isinstance(data, str) else data
    if len(held) != kind.itemsize:
        raise pickle.UnpicklingError("a value that is indexed has too few bytes, or too many")
    return np.frombuffer(held, kind)[0].item()


def pickled_indexes(data: bytes, where: str) -> dict[str, dict[Any, list[int]]]:
    """The indexes of row groups that Petastorm pickled: of each, values and the row groups that have them.

    Raises
    ------
    SourceError
        The pickle is damaged, or names anything that no index is made of: it is not run.
    """
    if len(data) > MAX_PICKLE_BYTES:
        raise SourceError(f"{where}: its pickled indexes take {len(data):,} bytes, more than is read")
    try:
        # Python 2's text, which bytes of numbers are among.
        inert = _InertIndexes(data, encoding="latin1").load()
        indexes = {}
        # The same record or list may be there many times.
        looked_at: set[int] = set()
        for name, index in inert.items():
            values = index.state["_index_data"]
            # The field that is not null has a set, and no values.
            indexes[_text(name)] = values if isinstance(values, dict) else {None: values}
            row_groups = [] if id(values) in looked_at else list(indexes[name].values())
            for rows in row_groups:
                if id(rows) in looked_at:
                    continue
                looked_at.add(id(rows))
                if not all(type(each) is int and each >= 0 for each in rows):
                    raise ValueError("a row group is not a number")
            looked_at.add(id(values))
        return indexes
    except Exception as error:
        # Whatever a damaged pickle leads to: the reasons are as many as its opcodes.
        raise SourceError(
            f"{where}: its pickled indexes were refused: {str(error)[:200]}. Nothing ran; "
            "hub.petastorm.build_rowgroup_index makes new ones"
        ) from None
