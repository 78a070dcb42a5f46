#include "bench.h"
int bench_store(int c,char**v){(void)c;(void)v;return 0;}
int bench_init(int c,char**v){(void)c;(void)v;return 0;}
