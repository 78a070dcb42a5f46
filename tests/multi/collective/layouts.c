/*
 * layouts.c - the groups of a run: the world, a second group of all ranks, groups of one, halves, every other
 * rank, and random groups, which overlap. They are a function of the seed.
 */
#include "suite.h"

struct layout layouts[LAYOUTS_MAX];
int n_layouts;

/* Adds the group of the ranks whose bit is set, if there are any. */
static void add(unsigned bits) {
    bits &= (1u << suite.size) - 1;
    if (!bits || n_layouts == LAYOUTS_MAX) return;
    struct layout *layout = &layouts[n_layouts++];
    *layout = (struct layout){.me = -1};
    for (int r = 0; r < suite.size; r++) {
        if (!(bits >> r & 1)) continue;
        if (r == suite.me) layout->me = layout->n;
        layout->ranks[layout->n++] = r;
    }
    char name[16];
    snprintf(name, sizeof name, "g%d", n_layouts - 1);
    if (n_layouts > 1 && layout->me >= 0)
        EXPECT_OK(mst_new_group(layout->ranks, layout->n, &layout->group, .name = name));
}

void make_layouts(void) {
    uint64_t state = mix(suite.seed, 1000);
    n_layouts = 0;
    add(~0u); /* NULL: the world itself */
    add(~0u);
    for (int r = 0; r<suite.size; r += suite.size> 1 ? suite.size - 1 : 1) add(1u << r);
    add(0x5555);
    add((1u << (suite.size + 1) / 2) - 1);
    add(~0u << suite.size / 2);
    for (int i = 0; i < 4; i++) add((unsigned)draw(&state, 1u << suite.size));
}

void end_layouts(void) {
    for (int i = 1; i < n_layouts; i++)
        if (layouts[i].group) EXPECT_OK(mst_destroy_process_group(layouts[i].group));
}
