/* kernels_scalar.c - one element at a time: the reference for all other variants. */
#include "reduce/variants.h"

#define VARIANT scalar
#define WIDTH   0
#include "reduce/kernels.inc"
