/* backends.c - which backend serves which kind of memory, and look-ups in rows. See registry.h. */
#include "base/error.h"
#include "engine/module/registry.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_texts[] = {
#define TEXT(number, name, text) [number] = text,
    MST_KIND_TABLE(TEXT)
#undef TEXT
};

const char *msi_kind_text(mst_kind kind) {
    return (unsigned)kind < MST_KIND_COUNT ? kind_texts[kind] : "?";
}

bool msi_rows_have(const mst_backend_capability *rows, mst_kind kind, mst_dtype dtype, mst_op op,
                   mst_memory memory, unsigned forms) {
    bool reduces = msi_kind_reduces(kind);
    for (const mst_backend_capability *r = rows; r->kinds; r++) {
        uint32_t memories = r->memories ? r->memories : 1u << MST_MEMORY_HOST;
        if (!(r->kinds >> kind & 1) || !(memories >> memory & 1) || (forms & ~r->forms)) continue;
        if (r->dtypes && kind != MST_KIND_BARRIER && !(r->dtypes >> dtype & 1)) continue;
        if (!reduces || (op < MST_OP_COUNT && r->ops >> op & 1)) return true;
    }
    return false;
}

/* native does everything, with memory of the host only. */
static const mst_backend_capability native_rows[] = {
    {.kinds = (1u << MST_KIND_COUNT) - 1,
     .ops = (1u << MST_OP_COUNT) - 1,
     .forms = (1u << MST_FORM_COUNT) - 1},
    {0},
};

static const mst_backend_capability *rows_of_native(void) {
    return native_rows;
}

static bool probe_native(char *text, size_t size) {
    snprintf(text, size, "always available");
    return true;
}

const mst_backend msi_native_backend = {
    .version = MST_BACKEND_VERSION,
    .size = sizeof msi_native_backend,
    .name = "native",
    .title = "shared memory and TCP",
    .probe = probe_native,
    .rows = rows_of_native,
};

static bool serves(const mst_backend *table, int memory) {
    for (const mst_backend_capability *r = table->rows(); r->kinds; r++)
        if ((r->memories ? r->memories : 1u << MST_MEMORY_HOST) >> memory & 1) return true;
    return false;
}

/* Assigns the backend to all memory that it can serve, or to one kind of memory. */
static mst_status assign(struct msi_backends *backends, const mst_backend *table, int only) {
    bool any = false;
    for (int m = 0; m < MST_MEMORY_COUNT; m++) {
        if (only >= 0 && only != m) continue;
        if (!serves(table, m)) continue;
        if (backends->of[m] && backends->of[m] != table)
            return msi_fail(MST_ERR_INVALID, "name one for cpu and one for cuda",
                            "'%s' and '%s' are for the same memory", backends->of[m]->name, table->name);
        backends->of[m] = table;
        any = true;
    }
    if (any) return MST_OK;
    return msi_fail(MST_ERR_INVALID, "choose another backend for that memory",
                    "backend '%s' cannot serve memory of the %s", table->name,
                    only == MST_MEMORY_CUDA ? "device" : "host");
}

/* Parses "cpu:" or "cuda:" before a name; -1: there is no prefix. */
static mst_status read_memory(const char **word, int *memory) {
    static const struct {
        const char *text;
        int memory;
    } names[] = {{"cpu:", MST_MEMORY_HOST}, {"cuda:", MST_MEMORY_CUDA}, {"gpu:", MST_MEMORY_CUDA}};
    *memory = -1;
    if (!strchr(*word, ':')) return MST_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(*word, names[i].text, strlen(names[i].text))) {
            *word += strlen(names[i].text);
            *memory = names[i].memory;
            return MST_OK;
        }
    return msi_fail(MST_ERR_INVALID, "use cpu: and cuda:, as in cpu:native,cuda:nccl",
                    "'%s' does not name a kind of memory", *word);
}

static mst_status take_word(const char *word, const char *path, struct msi_backends *backends) {
    const mst_backend *table = NULL;
    int memory;
    mst_status st = read_memory(&word, &memory);
    if (st == MST_OK) st = msi_backend_find(word, path, &table);
    return st == MST_OK ? assign(backends, table, memory) : st;
}

/* Writes the backends in a canonical form, since ranks compare their texts. */
static void name_them(struct msi_backends *backends) {
    const mst_backend *host = backends->of[MST_MEMORY_HOST], *device = backends->of[MST_MEMORY_CUDA];
    const mst_backend *one = !device ? host : !host || host == device ? device : NULL;
    size_t n = sizeof backends->text;
    if (one && serves(one, MST_MEMORY_HOST) == (host != NULL) &&
        serves(one, MST_MEMORY_CUDA) == (device != NULL))
        snprintf(backends->text, n, "%s", one->name);
    else if (one)
        snprintf(backends->text, n, "%s:%s", host ? "cpu" : "cuda", one->name);
    else if (host && device)
        snprintf(backends->text, n, "cpu:%s,cuda:%s", host->name, device->name);
}

/* "auto": native, and nccl if the program has loaded CUDA and nccl can be used. */
static void choose(const char *path, struct msi_backends *backends) {
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    const mst_backend *nccl;
    *backends = (struct msi_backends){.of = {[MST_MEMORY_HOST] = &msi_native_backend}};
    if (cuda && msi_backend_find("nccl", path, &nccl) == MST_OK) backends->of[MST_MEMORY_CUDA] = nccl;
    if (cuda) dlclose(cuda);
    name_them(backends);
}

mst_status msi_backends_parse(const char *text, const char *path, struct msi_backends *backends) {
    struct msi_backends made = {.text = ""};
    char copy[MSI_BACKENDS_MAX], *rest = copy;
    if (!text || !*text || !strcmp(text, "auto")) {
        choose(path, backends);
        return MST_OK;
    }
    if (strlen(text) >= sizeof copy)
        return msi_fail(
            MST_ERR_INVALID, "give names such as native or cpu:native,cuda:nccl; see `muster info`",
            "backend '%.40s…' has %zu characters; the limit is %zu", text, strlen(text), sizeof copy - 1);
    snprintf(copy, sizeof copy, "%s", text);
    mst_status st = MST_OK;
    for (char *word; st == MST_OK && (word = strsep(&rest, ","));) st = take_word(word, path, &made);
    if (st != MST_OK) return st;
    name_them(&made);
    *backends = made;
    return MST_OK;
}
