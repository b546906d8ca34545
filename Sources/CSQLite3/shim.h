#pragma once

#include <sqlite3.h>

/// Extended result codes are macros with casts and shifts that Swift does not import.
static const int sqlite_ioerr_fsync = SQLITE_IOERR_FSYNC, sqlite_ioerr_dir_fsync = SQLITE_IOERR_DIR_FSYNC;

/// sqlite3_db_config is variadic: leaves the write-ahead log as it is when the last connection is closed.
static inline int sqlite_keep_log_at_close(sqlite3 *connection) {
    return sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}
