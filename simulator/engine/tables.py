"""The arrays of a run as compiled code sees them: a list of addresses, one for each table.

numba passes an array to a function in seven words. A run has two dozen arrays, and passing them
from function to function would cost more than what the functions do. So compiled code gets the
address of a list of addresses; ``state.consumers[3]`` is then one addition away. Indices are not
checked: the engine uses only those that the layout has made.
"""

# numba's interface for new types has no annotations of its own.
# mypy: disable-error-code="no-untyped-call, misc, untyped-decorator, override"

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    models,
    register_model,
    typeof_impl,
    unbox,
)

WORD = ir.IntType(64)


class Tables:
    """Named arrays with one common address; ``ROWS`` has the row type of each."""

    ROWS: ClassVar[Mapping[str, np.dtype[Any]]] = {}

    def __init__(self, **arrays: npt.NDArray[Any]) -> None:
        for name, dtype in self.ROWS.items():
            array = arrays.pop(name) if name in arrays else np.zeros(0, dtype)
            assert array.dtype == dtype, name
            assert array.flags.c_contiguous, name
            setattr(self, name, array)
        assert not arrays, arrays
        self._addresses = np.array([getattr(self, name).ctypes.data for name in self.ROWS])
        self.address = self._addresses.ctypes.data

    def replaced(self, **arrays: npt.NDArray[Any]) -> Any:
        """The same tables, except those given."""
        return type(self)(**{name: getattr(self, name) for name in self.ROWS} | arrays)


class TablesType(types.Type):
    """The type of :class:`Tables` with certain rows."""

    def __init__(self, owner: str, rows: Mapping[str, np.dtype[Any]]) -> None:
        self.names = list(rows)
        self.tables = [TableType(from_dtype(dtype)) for dtype in rows.values()]
        super().__init__(name=f"Tables({owner})")


class TableType(types.Type):
    """The type of one table: rows of one kind, by number."""

    def __init__(self, row: Any) -> None:
        self.row = row
        super().__init__(name=f"Table({row})")


class _Address(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: types.Type) -> None:
        super().__init__(manager, type_, WORD)


register_model(TablesType)(_Address)
register_model(TableType)(_Address)

_types: dict[type, TablesType] = {}


@typeof_impl.register(Tables)
def _typeof(value: Tables, context: Any) -> TablesType:
    kind = type(value)
    if kind not in _types:
        _types[kind] = TablesType(kind.__qualname__, kind.ROWS)
    return _types[kind]


@unbox(TablesType)
def _unbox(type_: TablesType, value: Any, context: Any) -> NativeValue:
    address = context.pyapi.object_getattr_string(value, "address")
    native = context.pyapi.long_as_longlong(address)
    context.pyapi.decref(address)
    return NativeValue(native)


@infer_getattr
class _TableOf(AttributeTemplate):
    key = TablesType

    def generic_resolve(self, tables: TablesType, name: str) -> TableType | None:
        return tables.tables[tables.names.index(name)] if name in tables.names else None


@lower_getattr_generic(TablesType)
def _address_of(context: Any, builder: Any, type_: TablesType, value: Any, name: str) -> Any:
    place = builder.add(value, WORD(8 * type_.names.index(name)))
    return builder.load(builder.inttoptr(place, WORD.as_pointer()))


@infer_global(operator.getitem)
class _GetRow(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], TableType):
            return signature(args[0].row, args[0], types.int64)
        return None


@infer_global(operator.setitem)
class _SetRow(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], TableType):
            return signature(types.none, args[0], types.int64, args[0].row)
        return None


def _pointer(context: Any, builder: Any, table: TableType, base: Any, index: Any) -> Any:
    size = table.row.size if _is_record(table) else table.row.bitwidth // 8
    address = builder.add(base, builder.mul(index, WORD(size)))
    if _is_record(table):
        return builder.inttoptr(address, context.get_value_type(table.row))
    return builder.inttoptr(address, context.get_data_type(table.row).as_pointer())


def _is_record(table: TableType) -> bool:
    return isinstance(table.row, types.Record)


@lower_builtin(operator.getitem, TableType, types.Integer)
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    pointer = _pointer(context, builder, sig.args[0], *args)
    if _is_record(sig.args[0]):
        return pointer
    return context.unpack_value(builder, sig.args[0].row, pointer)


@lower_builtin(operator.setitem, TableType, types.Integer, types.Any)
def _set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    pointer = _pointer(context, builder, sig.args[0], args[0], args[1])
    if _is_record(sig.args[0]):
        cgutils.raw_memcpy(builder, pointer, args[2], WORD(sig.args[0].row.size), 1)
    else:
        context.pack_value(builder, sig.args[0].row, args[2], pointer)
    return context.get_dummy_value()
