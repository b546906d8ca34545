/// What keeps a mount while the processes that serve it are replaced.
package enum KeeperPlace: Sendable, Hashable {
    /// The service manager, which keeps descriptors of a service (sd_pid_notify_with_fds(3)).
    case serviceManager
    /// A process of `pailfs keep` that listens at this path.
    case socket(path: String)

    /// `systemd`, or a path, which has a slash; nil for anything else.
    init?(_ text: String) {
        if text == "systemd" {
            self = .serviceManager
        } else {
            guard text.contains("/"), !text.hasSuffix("/"), !text.utf8.contains(0) else { return nil }
            self = .socket(path: text)
        }
    }
}
