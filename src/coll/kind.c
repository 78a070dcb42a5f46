/* kind.c - names of the kinds of operations. See kind.h. */
#include "coll/kind.h"

#define MSI_KIND_TEXT(name, text) text,
static const char *const names[MSI_KIND_COUNT] = {MSI_KINDS(MSI_KIND_TEXT)};

const char *msi_kind_name(unsigned kind) {
    return kind < MSI_KIND_COUNT ? names[kind] : "?";
}
