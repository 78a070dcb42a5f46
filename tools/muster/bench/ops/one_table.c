/*
 * one_table.c - prints the table of one backend in the layout of nccl-tests: for each size the time and the
 * bandwidths out of place and in place, and the number of wrong elements of each. See ops.h.
 */
#include "bench/ops/ops.h"

static void print_titles(void) {
    printf("# %33s%*s%*s\n", "", 22, "out-of-place", 32, "in-place");
    printf("# %9s %10s %6s %5s", "size", "count", "dtype", "redop");
    for (int k = 0; k < 2; k++) printf(" %8s %7s %7s %7s", "time", "algbw", "busbw", "#wrong");
    printf("\n# %9s %10s %6s %5s", "(B)", "(elements)", "", "");
    for (int k = 0; k < 2; k++) printf("%*s %7s %7s", k == 0 ? 9 : 17, "(us)", "(GB/s)", "(GB/s)");
    printf("\n");
}

/* Prints the figures of one form; adds to the sum of the bandwidths. */
static void print_form(const struct ops_table *t, int i, double *sum, int *n) {
    char text[OPS_TEXT];
    if (!t || !(t->at[0][i].us > 0)) {
        printf(" %8s %7s %7s %7s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    const struct ops_figure *f = &t->at[0][i];
    double busbw = ops_busbw(&t->what, i, f->us);
    printf(" %8s", ops_put(text, f->us, ""));
    printf(" %7s", ops_put(text, ops_algbw(&t->what, i, f->us), ""));
    printf(" %7s %7zu", ops_put(text, busbw, ""), f->wrong);
    *sum += busbw;
    (*n)++;
}

/* The count of the call: elements of the buffer, or of the block of a rank. */
static size_t count_of(const struct ops_case *what, int i) {
    return what->bytes[i] / what->dtype->element / (ops_has_blocks(what->op) ? (size_t)what->ranks : 1);
}

void ops_print_one(const struct ops_bench *b, const struct ops_table *out, const struct ops_table *in) {
    const struct ops_case *what = out ? &out->what : &in->what;
    char text[OPS_TEXT];
    double sum = 0;
    int n = 0;
    ops_print_case(what, false);
    print_titles();
    for (int i = 0; i < what->n_sizes; i++) {
        printf("%11zu %10zu %6s %5s", what->bytes[i], count_of(what, i),
               what->op == LOOP_BARRIER ? "-" : what->dtype->name, loop_reduces(what->op) ? "sum" : "-");
        print_form(out, i, &sum, &n);
        print_form(in, i, &sum, &n);
        printf("\n");
    }
    if (sum > 0) printf("# average busbw: %s GB/s\n", ops_put(text, sum / n, ""));
    if (out) ops_print_notes(b, out);
    if (in) ops_print_notes(b, in);
    fflush(stdout);
}
