/* kind.c - names and families of the kinds of operations. See kind.h. */
#include "coll/kind.h"

#define ROW(id, family, name) {name, MSI_KIND_##family},
static const struct {
    const char *name;
    enum msi_kind family;
} rows[MSI_KIND_COUNT] = {MSI_KINDS(ROW)};

const char *msi_kind_name(unsigned kind) {
    return kind < MSI_KIND_COUNT ? rows[kind].name : "?";
}

enum msi_kind msi_kind_family(unsigned kind) {
    return kind < MSI_KIND_COUNT ? rows[kind].family : MSI_KIND_NONE;
}
