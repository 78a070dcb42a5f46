/* kernels_base.c - 16 bytes at a time, with what every processor of the architecture has. */
#include "reduce/variants.h"

#define VARIANT base
#define WIDTH   16
#include "reduce/kernels.inc"
