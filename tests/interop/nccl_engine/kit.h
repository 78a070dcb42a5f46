/* kit.h - what the parts of nccl_engine share: a rank, its host's side of the table, and memory of the
 * device. */
#ifndef TESTS_NCCL_ENGINE_KIT_H
#define TESTS_NCCL_ENGINE_KIT_H

#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 8, PATIENCE_MS = 60000 };

extern const mst_backend *table;
extern mst_backend_engine *engine;
extern int me, n;

/* host.c: keys are files of a directory. */
extern mst_backend_host host;
extern char last_error[512]; /* of the last failure */
void host_init(const char *directory, int timeout_ms);
int64_t now_ns(void);

/* device.c */
void device_init(void);
void *device_new(size_t bytes); /* filled with 0xee */
void device_free(void *memory);
void upload(void *to, const void *from, size_t bytes);
void download(void *to, const void *from, size_t bytes);
void *stream_new(void);
void stream_end(void *stream);
/* Copies on the stream, without waiting. */
void copy_on(void *stream, void *to, const void *from, size_t bytes);
void stream_wait(void *stream);

/* nccl_engine.c */
_Noreturn void give_up(const char *file, int line, const char *what);
#define REQUIRE(condition) ((condition) ? (void)0 : give_up(__FILE__, __LINE__, #condition))
#define REQUIRE_OK(call)   REQUIRE((call) == MST_OK)
/* Submits and waits. */
void run_op(mst_backend_op *op);
mst_status finish_op(mst_backend_op *op, int timeout_ms);

/* collectives.c, messages.c */
void test_collectives(void);
void test_reductions(void);
void test_streams(void);
void test_groups(void);
void test_messages(void);

#endif
