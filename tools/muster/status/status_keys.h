/*
 * status_keys.h - how "muster status" and the launchers of a job talk, through the job's store.
 *
 *   muster/status/ids         number of launchers so far, each of which takes one as its ID
 *   muster/status/launchers   lines: "+ID HOST", a launcher answers; "-ID", it has disconnected
 *   muster/status/count       number of requests
 *   muster/status/asked       a byte for each request: the launchers wait until it grows
 *   muster/status/node/ID     the launcher's last answer, as JSON; its "asked" is the request that it answers
 *
 * A launcher does nothing until it is asked. Any process that reaches the store can ask, so a launcher
 * answers at most once in STATUS_PAUSE_MS.
 */
#ifndef MUSTER_TOOL_STATUS_STATUS_KEYS_H
#define MUSTER_TOOL_STATUS_STATUS_KEYS_H

#define STATUS_LAUNCHERS_KEY "muster/status/launchers"
#define STATUS_IDS_KEY       "muster/status/ids"
#define STATUS_COUNT_KEY     "muster/status/count"
#define STATUS_ASKED_KEY     "muster/status/asked"
#define STATUS_NODE_KEY      "muster/status/node/"

enum {
    STATUS_FORMAT = 1, /* of an answer; change it if old readers would misread a new one */
    STATUS_PAUSE_MS = 100,
    STATUS_FLIGHTS_MOST = 1 << 20, /* bytes of an answer after which it has no more flight recorders */
};

#endif
