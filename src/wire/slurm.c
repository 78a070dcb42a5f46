/*
 * slurm.c - Slurm's lists of hosts and of tasks on them. See hosts.h.
 *
 *   list   expr,expr,...
 *   expr   letters and brackets in any order: rack[0-1]node[01-04,7]-ib stands for every combination, the
 *          last bracket running fastest; a number keeps the width that its range was written with
 *   tasks  N or N(xTIMES), with commas between
 */
#include "base/error.h"
#include "wire/hosts.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS_MAX = 15, BRACKETS_MAX = 8 };

/* Reads decimal digits; false if there are none or too many. */
static bool read_number(const char **at, uint64_t *value, int *width) {
    uint64_t number = 0;
    int digits = 0;
    for (; isdigit((unsigned char)**at); (*at)++) {
        if (++digits > DIGITS_MAX) return false;
        number = number * 10 + (uint64_t)(**at - '0');
    }
    *value = number;
    if (width) *width = digits;
    return digits > 0;
}

struct range {
    uint64_t from, count;
    int width;
};

/* Reads one range of a bracket; *at then points to the ',' or ']' after it. */
static bool read_range(const char **at, struct range *range) {
    uint64_t to;
    if (!read_number(at, &range->from, &range->width)) return false;
    to = range->from;
    if (**at == '-') {
        (*at)++;
        if (!read_number(at, &to, NULL)) return false;
    }
    if (to < range->from || to - range->from >= MSI_HOSTS_MAX) return false;
    range->count = to - range->from + 1;
    return **at == ',' || **at == ']';
}

/* Counts the numbers of the bracket at *at, which then points after its ']'. 0: malformed. */
static uint64_t count_bracket(const char **at) {
    uint64_t total = 0;
    do {
        struct range range;
        (*at)++;
        if (!read_range(at, &range)) return 0;
        total += range.count;
        if (total > MSI_HOSTS_MAX) return 0;
    } while (**at == ',');
    (*at)++;
    return total;
}

static bool is_letter(char c) {
    return isalnum((unsigned char)c) || c == '-' || c == '.' || c == '_';
}

struct expr {
    const char *text, *end;
    uint64_t hosts;
    int brackets;
    uint64_t counts[BRACKETS_MAX];
};

/* Measures the expression at text. */
static bool read_expr(const char *text, struct expr *expr) {
    *expr = (struct expr){.text = text, .hosts = 1};
    const char *at = text;
    while (*at && *at != ',') {
        if (is_letter(*at)) {
            at++;
            continue;
        }
        if (*at != '[' || expr->brackets == BRACKETS_MAX) return false;
        uint64_t n = count_bracket(&at);
        if (!n || n > MSI_HOSTS_MAX / expr->hosts) return false;
        expr->hosts *= n;
        expr->counts[expr->brackets++] = n;
    }
    expr->end = at;
    return at > text;
}

/* Writes the which-th number of the well-formed bracket at *at, which then points after it. */
static int write_number(const char **at, uint64_t which, char *out, size_t space) {
    int n = 0;
    do {
        struct range range;
        (*at)++;
        read_range(at, &range);
        if (n == 0 && which < range.count)
            n = snprintf(out, space, "%0*llu", range.width, (unsigned long long)(range.from + which));
        else
            which -= n ? 0 : range.count;
    } while (**at == ',');
    (*at)++;
    return n;
}

/* Writes the n-th host of an expression; false if its name is too long. */
static bool write_host(const struct expr *expr, uint64_t n, char host[MSI_HOST_MAX]) {
    uint64_t which[BRACKETS_MAX] = {0};
    for (int b = expr->brackets - 1; b >= 0; b--) {
        which[b] = n % expr->counts[b];
        n /= expr->counts[b];
    }
    size_t len = 0;
    int b = 0;
    for (const char *at = expr->text; at < expr->end && len < MSI_HOST_MAX;) {
        if (*at == '[')
            len += (size_t)write_number(&at, which[b++], host + len, MSI_HOST_MAX - len);
        else
            host[len++] = *at++;
    }
    if (len >= MSI_HOST_MAX) return false;
    host[len] = 0;
    return true;
}

mst_status msi_hosts_slurm(const char *name, const char *text, uint64_t n, char host[MSI_HOST_MAX],
                           uint64_t *count) {
    char made[MSI_HOST_MAX];
    bool found = false;
    uint64_t total = 0;
    const char *at = text;
    for (;; at++) {
        struct expr expr;
        if (!read_expr(at, &expr) || (total += expr.hosts) > MSI_HOSTS_MAX)
            return msi_fail(
                MST_ERR_CONFIG, "write it like n[01-03,7],gpu5, or set MASTER_ADDR to rank 0's host",
                "%s='%.200s' is not a list of at most %d hosts: see '%.40s'", name, text, MSI_HOSTS_MAX, at);
        if (!found && n < total) {
            if (!write_host(&expr, n - (total - expr.hosts), made))
                return msi_fail(MST_ERR_CONFIG, NULL, "%s='%.200s' has a name of more than %d characters",
                                name, text, MSI_HOST_MAX - 1);
            found = true;
        }
        at = expr.end;
        if (!*at) break;
    }
    if (!found)
        return msi_fail(MST_ERR_CONFIG, NULL, "%s='%.200s' has %llu hosts, but host %llu (from 0) is needed",
                        name, text, (unsigned long long)total, (unsigned long long)n);
    strcpy(host, made);
    if (count) *count = total;
    return MST_OK;
}

/* "2" or "2(x3)" */
static bool read_tasks(const char **at, uint64_t *tasks, uint64_t *times) {
    *times = 1;
    if (!read_number(at, tasks, NULL) || *tasks > MSI_HOSTS_MAX) return false;
    if (strncmp(*at, "(x", 2) != 0) return true;
    *at += 2;
    return read_number(at, times, NULL) && *times > 0 && *times <= MSI_HOSTS_MAX && *(*at)++ == ')';
}

mst_status msi_tasks_at(const char *name, const char *text, uint64_t node, uint64_t *tasks) {
    uint64_t nodes = 0, here, times, found = 0;
    bool known = false;
    for (const char *at = text;; at++) {
        if (!read_tasks(&at, &here, &times) || (*at && *at != ',') || nodes + times > MSI_HOSTS_MAX)
            return msi_fail(MST_ERR_CONFIG,
                            "write it like 2(x3),1: two tasks on each of three nodes, one on a fourth",
                            "%s='%.200s' does not give the number of tasks of each node", name, text);
        if (!known && node < nodes + times) {
            found = here;
            known = true;
        }
        nodes += times;
        if (!*at) break;
    }
    if (!known)
        return msi_fail(MST_ERR_CONFIG, NULL, "%s='%.200s' has %llu nodes, but node %llu (from 0) is needed",
                        name, text, (unsigned long long)nodes, (unsigned long long)node);
    *tasks = found;
    return MST_OK;
}
