/* SPDX-License-Identifier: MIT */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* What a fuzz target is: takes one input and aborts where something is wrong. Always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
