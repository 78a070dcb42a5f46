/* tls.c - finds and loads the module of tls.h. */
#include "auth/tls.h"
#include "base/error.h"
#include "os/module_file.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

mst_status msi_tls_load(const char *path, const struct msi_tls_module **module) {
    char file[PATH_MAX];
    if (!msi_module_file("mst_tls.so", path, file))
        return msi_fail(
            MST_ERR_UNSUPPORTED,
            "build all of muster (make) where libssl-dev is installed, or add the module's directory to "
            "MUSTER_BACKEND_PATH",
            "TLS needs the module mst_tls.so, which was not found");
    /* Loaded again, it is the same. It is never unloaded. */
    void *loaded = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!loaded)
        return msi_fail(MST_ERR_UNSUPPORTED, "install OpenSSL 3 (libssl3)",
                        "the module for TLS cannot be loaded: %s", dlerror());
    msi_tls_give *give;
    void *found = dlsym(loaded, "mst_tls_module");
    memcpy(&give, &found, sizeof give); /* C has no cast from void * to a function pointer */
    *module = give ? give(MSI_TLS_VERSION) : NULL;
    if (*module) return MST_OK;
    return msi_fail(MST_ERR_VERSION, "install library and modules of one version", "%s is of another version",
                    file);
}
