// SPDX-License-Identifier: MIT
//
// Right: docs/page.md section 1. Wrong: docs/no_page.md, docs/page.md sections 1 and 2, and (docs/page.md
// section 3), DESIGN section 1, torch-semantics 2.5.
int quoted = 1;
