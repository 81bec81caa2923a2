// SPDX-License-Identifier: MIT
//
// What each unit of this test offers to the others: plain C types, since their intq types differ.
#ifndef INTQ_TESTS_STRUCTURE_TWO_UNITS_UNIT_HPP
#define INTQ_TESTS_STRUCTURE_TWO_UNITS_UNIT_HPP

struct UnitResult {
    const char* backend = "";
    int assert_level = -1;
    int size = 0;  // bytes filled; 0 if the unit failed
    unsigned char bytes[4096] = {};
};

#endif  // INTQ_TESTS_STRUCTURE_TWO_UNITS_UNIT_HPP
