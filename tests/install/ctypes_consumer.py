"""ctypes_consumer.py LIBRARY - calls the functions with options as a struct pointer through Python's FFI, with NULL for the options."""

import ctypes
import sys

lib = ctypes.CDLL(sys.argv[1])
lib.mst_version.restype = ctypes.c_char_p
lib.mst_error.restype = ctypes.c_char_p


class Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("len", ctypes.c_size_t)]


def check(status):
    if status != 0:
        sys.exit(lib.mst_error().decode())


major, minor, patch = map(int, lib.mst_version().decode().split("."))
check(lib.mst_init_with(None))
assert lib.mst_get_rank(None) == 0 and lib.mst_get_world_size(None) == 1
check(lib.mst_barrier_with(None))

store, value = ctypes.c_void_p(), Bytes()
check(lib.mst_store_open_with(b"hash://", ctypes.byref(store), None))
check(lib.mst_store_set_with(store, b"key", b"value", ctypes.c_size_t(5), None))
check(lib.mst_store_get_with(store, b"key", ctypes.byref(value), None))
assert ctypes.string_at(value.data, value.len) == b"value"
lib.mst_bytes_free(ctypes.byref(value))
lib.mst_store_free(store)
check(lib.mst_destroy_process_group(None))
