/* kernels_scalar.c - an element at a time: what every other variant must equal. */
#include "reduce/variants.h"

#define VARIANT scalar
#define WIDTH   0
#include "reduce/kernels.inc"
