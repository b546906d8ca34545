#pragma once

// libfuse's low-level API. The version picks the 3.12 signatures (fuse_session_loop_mt with a config object).
// _FILE_OFFSET_BITS stays undefined: off_t has 64 bits here, and defining it gives Glibc's types a second identity.
#define FUSE_USE_VERSION 312

#include <fuse_lowlevel.h>
