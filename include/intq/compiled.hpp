// SPDX-License-Identifier: MIT
//
// The definitions of the compiled form, for the one source file of a program that holds them where CMake's target
// intq::compiled does not serve. That file includes this header and nothing else of intq before it. All files of the
// program are compiled with -DINTQ_COMPILED=1. The kernels are those of the flags of that one file.
//
// See docs/design.md section 13.
#ifndef INTQ_COMPILED_HPP
#define INTQ_COMPILED_HPP

#if !defined(INTQ_COMPILED) || !INTQ_COMPILED
#    error "intq/compiled.hpp needs -DINTQ_COMPILED=1, in this file and in all others of the program"
#endif
#ifdef INTQ_CORE_CONFIG_HPP
#    error "intq/compiled.hpp comes before every other header of intq, because it has them show their definitions"
#endif

#define INTQ_DEFINES_ALL 1

#include "intq/intq.hpp"

#endif  // INTQ_COMPILED_HPP
