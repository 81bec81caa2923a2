# SPDX-License-Identifier: MIT
"""Keeps a library that chooses its instruction set by itself from AMX. x86-64 under Linux; elsewhere there is no AMX.

A process has AMX once it asks the kernel for tiles (arch_prctl, ARCH_REQ_XCOMP_PERM). The kernel refuses where a thread
has a stack for signals on which their registers do not fit: 8 KiB have room for those of AVX-512.
"""
import ctypes
import platform

SYS_ARCH_PRCTL, ARCH_GET_XCOMP_PERM, TILE_DATA = 158, 0x1022, 1 << 18


class Stack(ctypes.Structure):
    _fields_ = [("pointer", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]


memory = ctypes.create_string_buffer(8192)


def is_here():
    return platform.system() == "Linux" and platform.machine() == "x86_64"


def forbid():
    """Before the library asks."""
    if is_here():
        stack = Stack(ctypes.cast(memory, ctypes.c_void_p), 0, len(memory))
        if ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) != 0:
            raise OSError("sigaltstack: the kernel takes no stack of 8 KiB")


def is_permitted():
    """Whether this process has asked for it and has it."""
    permitted = ctypes.c_uint64()
    return is_here() and ctypes.CDLL(None).syscall(SYS_ARCH_PRCTL, ARCH_GET_XCOMP_PERM, ctypes.byref(permitted)) == 0 \
        and permitted.value & TILE_DATA != 0
