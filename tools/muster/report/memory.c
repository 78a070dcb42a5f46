/* memory.c - memory of "muster report". See report.h. */
#include "commands.h"
#include "report/report.h"

#include <stdarg.h>
#include <stdlib.h>

_Noreturn void report_no_memory(void) {
    fputs("muster report: out of memory\n", stderr);
    exit(EXIT_FAILED);
}

void *report_alloc(size_t n, size_t size) {
    void *memory = calloc(n > 0 ? n : 1, size);
    if (!memory) report_no_memory();
    return memory;
}

char *report_format(const char *format, ...) {
    va_list args;
    char *text;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0) report_no_memory();
    return text;
}

void report_reserve(void *array, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity) return;
    *capacity = n < 32 ? 64 : n * 2;
    void *grown = realloc(*(void **)array, *capacity * size);
    if (!grown) report_no_memory();
    *(void **)array = grown;
}

uint32_t report_add(struct msi_table *table, const void *key, size_t len) {
    uint32_t number = msi_table_add(table, key, len);
    if (number == MSI_TABLE_NONE) report_no_memory();
    return number;
}
