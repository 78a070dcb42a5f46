/*
 * trace_file.h - the file of a trace: buffered events as lines of an array. If the disk is full, the file
 * ends with a whole event, unless it cannot be truncated either.
 */
#ifndef MSI_PROF_TRACE_TRACE_FILE_H
#define MSI_PROF_TRACE_TRACE_FILE_H

#include "base/json.h"

#include <sys/types.h>

struct msi_trace_file {
    int fd;
    off_t written;     /* bytes of whole events in the file */
    uint64_t complete; /* number of these events */
    uint64_t events;   /* with those in the buffer */
    struct msi_buf buf;
    char path[4096 + 64];
};

/* Creates the directory and the rank's file under the first free name. 0, or an errno. */
int msi_trace_file_open(struct msi_trace_file *file, const char *directory, int rank);
/* Begins an event; the caller ends the object. */
struct msi_json_out msi_trace_file_event(struct msi_trace_file *file);
/* Writes the buffer. On an error, an errno, drops the buffer and leaves the file as it was. */
int msi_trace_file_write(struct msi_trace_file *file);
/* Ends the array. */
int msi_trace_file_end(struct msi_trace_file *file);
/* Closes the file; keep false: removes it. */
void msi_trace_file_close(struct msi_trace_file *file, bool keep);

#endif
