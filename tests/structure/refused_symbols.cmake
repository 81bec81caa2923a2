# SPDX-License-Identifier: MIT
#
# What an object of the embeddable half must not refer to: operator new and delete; the C heap; the C++ ABI and its
# throwing helpers; any std:: object; the C streams; the math library, whose bits differ.
set(refused_symbols
    "^(_Zn[wa]|_Zd[la]|malloc$|calloc$|realloc$|free$|aligned_alloc$|posix_memalign$|__cxa_|_Unwind_|__gxx_|_ZSt|_ZNSt|_ZNKSt|_ZTV|(exp|exp2|expm1|log|log2|log1p|pow|tanh|sinh|cosh|sin|cos|erf|erfc|sqrt|cbrt|fmin|fmax|floor|ceil|round|rint|nearbyint|ldexp|frexp|fma)f?l?$|printf|puts|putchar|fwrite|stdout|stderr)")
