#pragma once

// libfuse's low-level API. The version picks the 3.12 signatures of its callbacks.
// _FILE_OFFSET_BITS stays undefined: off_t has 64 bits here, and defining it gives Glibc's types a second identity.
#define FUSE_USE_VERSION 312

#include <fuse_lowlevel.h>
#include <stdarg.h>
#include <stdio.h>

/// fuse_session_new(3), a macro since libfuse 3.17.
static inline struct fuse_session *cfuse_session_new(
    struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations, size_t size, void *context) {
    return fuse_session_new(arguments, operations, size, context);
}

/// Asks for those of the capabilities that the kernel offers. FUSE_CAP_* have 64 bits since libfuse 3.18.
static inline void cfuse_want(struct fuse_conn_info *connection, uint64_t capabilities) {
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
    fuse_set_feature_flag(connection, capabilities & connection->capable_ext);
#else
    connection->want |= (uint32_t)capabilities & connection->capable;
#endif
}

/// Does without capabilities that libfuse would ask for by itself.
static inline void cfuse_refuse(struct fuse_conn_info *connection, uint64_t capabilities) {
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
    fuse_unset_feature_flag(connection, capabilities);
#else
    connection->want &= ~(uint32_t)capabilities;
#endif
}

/// Receives a message of libfuse, of a level of syslog(3).
typedef void (*cfuse_message_receiver)(int level, const char *message);

/// Where the receiver is kept: libfuse has one log function for the process. A variable of this header would not be linked.
static inline cfuse_message_receiver *cfuse_current_receiver(void) {
    static cfuse_message_receiver receiver;
    return &receiver;
}

static inline void cfuse_format_message(enum fuse_log_level level, const char *format, va_list arguments) {
    char message[512];
    vsnprintf(message, sizeof message, format, arguments);
    (*cfuse_current_receiver())(level, message);
}

/// fuse_set_log_func(3) without its va_list, which is a struct on arm64: Swift cannot take it there.
static inline void cfuse_receive_messages(cfuse_message_receiver receiver) {
    *cfuse_current_receiver() = receiver;
    fuse_set_log_func(cfuse_format_message);
}
