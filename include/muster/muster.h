/* muster.h - includes all public headers. */
#ifndef MUSTER_H
#define MUSTER_H

#include <muster/backend.h>
#include <muster/bucket.h>
#include <muster/comm.h>
#include <muster/discover.h>
#include <muster/group.h>
#include <muster/mesh.h>
#include <muster/output.h>
#include <muster/pipeline.h>
#include <muster/prof.h>
#include <muster/recovery.h>
#include <muster/status.h>
#include <muster/store.h>
#include <muster/types.h>
#include <muster/version.h>

#endif
