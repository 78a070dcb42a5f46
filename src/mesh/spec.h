/* spec.h - a mesh as text: "dp=2,pp=2,tp=4", or "2,2,4" without names. */
#ifndef MSI_MESH_SPEC_H
#define MSI_MESH_SPEC_H

#include <muster/status.h>

struct msi_mesh_spec {
    int ndim;
    int *sizes;
    char **names; /* NULL: no names */
};

mst_status msi_mesh_parse(const char *text, struct msi_mesh_spec *spec);
void msi_mesh_spec_free(struct msi_mesh_spec *spec);

#endif
