# SPDX-License-Identifier: MIT
#
# What an object of the embeddable half must not refer to: operator new and delete; the C heap; the C++ ABI and its
# throwing helpers; any std:: object; the C streams.
set(refused_symbols
    "^(_Zn[wa]|_Zd[la]|malloc$|calloc$|realloc$|free$|aligned_alloc$|posix_memalign$|__cxa_|_Unwind_|__gxx_|_ZSt|_ZNSt|_ZNKSt|_ZTV|printf|puts|putchar|fwrite|stdout|stderr)")
