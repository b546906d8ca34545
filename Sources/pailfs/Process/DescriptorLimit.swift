import Glibc

/// The limit of open descriptors (getrlimit(2)).
enum DescriptorLimit {
    /// Raises it as far as the system allows: every open file and every connection takes one.
    static func raise() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}
