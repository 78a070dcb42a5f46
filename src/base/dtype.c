/* dtype.c - the tables of dtype.h, looked up. */
#include <muster/dtype.h>

#define SIZE_ENTRY(number, name, bytes, text) [number] = (bytes),
#define TEXT_ENTRY(number, name, bytes, text) [number] = (text),
#define OP_ENTRY(number, name, text)          [number] = (text),

static const unsigned char sizes[MST_DTYPE_COUNT] = {MST_DTYPE_TABLE(SIZE_ENTRY)};
static const char *const dtype_names[MST_DTYPE_COUNT] = {"?", MST_DTYPE_TABLE(TEXT_ENTRY)};
static const char *const op_names[MST_OP_COUNT] = {MST_OP_TABLE(OP_ENTRY)};

size_t mst_dtype_size(mst_dtype dtype) {
    return (unsigned)dtype < MST_DTYPE_COUNT ? sizes[dtype] : 0;
}

const char *mst_dtype_name(mst_dtype dtype) {
    return (unsigned)dtype < MST_DTYPE_COUNT ? dtype_names[dtype] : "?";
}

const char *mst_op_name(mst_op op) {
    return (unsigned)op < MST_OP_COUNT ? op_names[op] : "?";
}
