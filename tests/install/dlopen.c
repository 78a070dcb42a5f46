/* dlopen.c - loads the library of the command line at run time and calls its functions. */
#include <dlfcn.h>
#include <muster/muster.h>
#include <stdio.h>
#include <string.h>

/* Defines p_name, a pointer to the library's function, with the type of the header's declaration. */
#define LOAD(name)                                                                                           \
    __typeof__(&name) p_##name;                                                                              \
    *(void **)&p_##name = dlsym(library, #name);                                                             \
    if (!p_##name) {                                                                                         \
        fprintf(stderr, "%s\n", dlerror());                                                                  \
        return 1;                                                                                            \
    }

#define REQUIRE(condition)                                                                                   \
    ((condition) ? (void)0 : (void)(failures++, fprintf(stderr, "%s: %s\n", #condition, p_mst_error())))

int main(int argc, char **argv) {
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int failures = 0;
    mst_store *store = NULL;
    mst_bytes value = {0};

    if (!library) {
        fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "usage: dlopen LIBRARY");
        return 1;
    }
    LOAD(mst_version)
    LOAD(mst_error)
    LOAD(mst_init_with)
    LOAD(mst_get_rank)
    LOAD(mst_get_world_size)
    LOAD(mst_barrier_with)
    LOAD(mst_store_open_with)
    LOAD(mst_store_set_with)
    LOAD(mst_store_get_with)
    LOAD(mst_bytes_free)
    LOAD(mst_store_free)
    LOAD(mst_destroy_process_group)

    REQUIRE(strcmp(p_mst_version(), MST_VERSION_STRING) == 0);
    REQUIRE(p_mst_init_with(NULL) == MST_OK);
    REQUIRE(p_mst_get_rank(NULL) == 0 && p_mst_get_world_size(NULL) == 1);
    REQUIRE(p_mst_barrier_with(NULL) == MST_OK);
    REQUIRE(p_mst_store_open_with("hash://", &store, NULL) == MST_OK);
    REQUIRE(p_mst_store_set_with(store, "key", "value", 5, NULL) == MST_OK);
    REQUIRE(p_mst_store_get_with(store, "key", &value, NULL) == MST_OK);
    REQUIRE(value.len == 5 && memcmp(value.data, "value", 5) == 0);
    p_mst_bytes_free(&value);
    p_mst_store_free(store);
    REQUIRE(p_mst_destroy_process_group(NULL) == MST_OK);
    return failures;
}
