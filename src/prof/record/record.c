/* record.c - see record.h. */
#include "prof/record/record.h"
#include "base/table.h"

#include <pthread.h>
#include <string.h>

enum { NAMES_MOST = 4096 };

static struct msi_table names; /* never moves: all its memory is reserved in the beginning */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of adding */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void reserve(void) {
    msi_table_reserve(&names, NAMES_MOST);
}

const char *msi_prof_keep(const char *text) {
    size_t len = strlen(text);
    pthread_once(&once, reserve);
    uint32_t number = msi_table_find(&names, text, len);
    if (number == MSI_TABLE_NONE && names.n_slots) {
        pthread_mutex_lock(&lock);
        bool full = names.n == NAMES_MOST;
        number = full ? msi_table_find(&names, text, len) : msi_table_add(&names, text, len);
        pthread_mutex_unlock(&lock);
        if (number == MSI_TABLE_NONE && full) return "other";
    }
    return number == MSI_TABLE_NONE ? NULL : msi_table_key(&names, number);
}
