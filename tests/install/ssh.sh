#!/bin/sh
# ssh [options] HOST COMMAND... - plays ssh on one machine: runs the command here, as a host of that name.
while getopts o:Tx option; do :; done
shift $((OPTIND - 1))
MUSTER_FORCE_HOST=$1
export MUSTER_FORCE_HOST
shift
exec sh -c "$*"
