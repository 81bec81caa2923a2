// SPDX-License-Identifier: MIT
//
// Macros without a prefix that headers of other projects define, and as they define them. foreign_macros.cpp includes
// the library behind them, and check_names reads the names from the #define lines below.
//
// No guard: a unit that needs them again includes this file again.

// --- windows.h (minwindef.h, windef.h, rpcndr.h, wingdi.h, winnt.h, winbase.h) ---------------------------------------
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define near
#define far
#define small char
#define hyper __int64
#define interface struct
#define pascal __stdcall
#define cdecl __cdecl
#define IN
#define OUT
#define OPTIONAL
#define CONST const
#define VOID void
#define TRUE 1
#define FALSE 0
#define ERROR 0
#define DELETE (0x00010000L)
#define ABSOLUTE 1
#define RELATIVE 2
#define OPAQUE 2
#define Yield()
#define GetObject GetObjectA
#define CreateFile CreateFileA
#define CopyFile CopyFileA
#define MoveFile MoveFileA
#define DeleteFile DeleteFileA
#define LoadImage LoadImageA
#define DrawText DrawTextA
#define SendMessage SendMessageA

// --- Arduino.h, binary.h and WString.h, as the core for AVR has them -------------------------------------------------
#undef min
#undef max
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define abs(x) ((x) > 0 ? (x) : -(x))
#define constrain(amt, low, high) ((amt) < (low) ? (low) : ((amt) > (high) ? (high) : (amt)))
#define round(x) ((x) >= 0 ? (long)((x) + 0.5) : (long)((x)-0.5))
#define radians(deg) ((deg)*DEG_TO_RAD)
#define degrees(rad) ((rad)*RAD_TO_DEG)
#define sq(x) ((x) * (x))
#define interrupts() sei()
#define noInterrupts() cli()
#define lowByte(w) ((uint8_t)((w)&0xff))
#define highByte(w) ((uint8_t)((w) >> 8))
#define bitRead(value, bit) (((value) >> (bit)) & 0x01)
#define bitSet(value, bit) ((value) |= (1UL << (bit)))
#define bitClear(value, bit) ((value) &= ~(1UL << (bit)))
#define bit(b) (1UL << (b))
#define word(...) makeWord(__VA_ARGS__)
#define F(string_literal) (reinterpret_cast<const __FlashStringHelper*>(PSTR(string_literal)))
#define PI 3.1415926535897932384626433832795
#define EULER 2.718281828459045235360287471352
#define HIGH 0x1
#define LOW 0x0
#define INPUT 0x0
#define OUTPUT 0x1
#define CHANGE 1
#define FALLING 2
#define RISING 3
#define DEFAULT 1
#define EXTERNAL 0
#define INTERNAL 3
#define SERIAL 0x0
#define DISPLAY 0x1
#define B0 0
#define B1 1
#define B00 0
#define B01 1
#define B10 2
#define B11 3

// --- AssertMacros.h of macOS; check and verify also of the Unreal engine, with ensure --------------------------------
#define check(assertion) ((void)(assertion))
#define check_noerr(error) ((void)(error))
#define check_string(assertion, message) ((void)(assertion))
#define ncheck(assertion) ((void)(assertion))
#define ncheck_string(assertion, message) ((void)(assertion))
#define verify(assertion) ((void)(assertion))
#define verify_noerr(error) ((void)(error))
#define verify_string(assertion, message) ((void)(assertion))
#define verify_action(assertion, action) ((void)(assertion))
#define nverify(assertion) ((void)(assertion))
#define require(assertion, label) ((void)(assertion))
#define require_noerr(error, label) ((void)(error))
#define require_string(assertion, label, message) ((void)(assertion))
#define require_action(assertion, label, action) ((void)(assertion))
#define require_quiet(assertion, label) ((void)(assertion))
#define require_noerr_quiet(error, label) ((void)(error))
#define nrequire(assertion, label) ((void)(assertion))
#define nrequire_quiet(assertion, label) ((void)(assertion))
#define ensure(assertion) (!!(assertion))

// --- qobjectdefs.h and qforeach.h of Qt ------------------------------------------------------------------------------
#define signals public
#define slots
#define emit
#define foreach(variable, container) for (variable : container)
#define forever for (;;)

// --- complex.h of C99, sys/sysmacros.h of glibc, the names that -std=gnu++20 defines on Linux, msp430.h --------------
#undef I
#undef linux
#undef unix
#undef major
#undef minor
#undef makedev
#define I _Complex_I
#define major(dev) gnu_dev_major(dev)
#define minor(dev) gnu_dev_minor(dev)
#define makedev(major, minor) gnu_dev_makedev(major, minor)
#define linux 1
#define unix 1
#define C (0x0001)
#define Z (0x0002)
#define N (0x0004)
#define V (0x0100)

// --- X11/X.h and X11/Xlib.h ------------------------------------------------------------------------------------------
#define True 1
#define False 0
#define Success 0
#define Always 2
#define Above 0
#define Below 1
#define Complex 0
#define Convex 2
#define Opposite 4
#define Expose 12
#define KeyPress 2
#define KeyRelease 3
#define CurrentTime 0L
#define NoSymbol 0L
#define GrayScale 1
#define PseudoColor 3
#define TrueColor 4
#define Unsorted 0
#define RootWindow(display, screen) (ScreenOfDisplay(display, screen)->root)
// The umbrella headers put these three aside for themselves (docs/kernels_in_your_engine.md).
#define None 0L
#define Bool int
#define Status int
