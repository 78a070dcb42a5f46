/*
 * secret.h - the secret of a job whose ranks this launcher starts all, on this host and over ssh: 256 random
 * bits. Ranks read it from a memfd of the launcher, see auth/secret.h. Launchers that a user starts by hand
 * on several nodes use the user's own secret or MUSTER_SECRET_FILE. The main thread uses it.
 */
#ifndef MUSTER_TOOL_RUN_SECRET_H
#define MUSTER_TOOL_RUN_SECRET_H

#include <muster/status.h>
#include <stdbool.h>

/* Hexadecimal digits, and a NUL. */
enum { RUN_SECRET_TEXT = 65 };

/* Where an agent, a launcher on another host, reads the secret: agent_script.h. */
enum { RUN_SECRET_FD = 3 };

/*
 * Makes the secret, or with agent reads it from RUN_SECRET_FD, and sets MUSTER_SECRET_FD for this process and
 * its ranks. text is what agents read. If MUSTER_SECRET_FILE is set, does nothing, and text is "".
 */
mst_status run_secret_open(bool agent, char text[RUN_SECRET_TEXT]);

#endif
