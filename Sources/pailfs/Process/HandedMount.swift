import FuseBridge

/// What `pailfs mount` is asked to serve: a mount to make, or one that another process has made and whose connection it has
/// handed in.
struct HandedMount {
    let url: String
    /// A directory, or the name of the mount that was handed in.
    let mountpoint: String
    let options: [String]
    /// nil for a mount to make.
    let connection: HandedConnection?

    /// A mount on a directory, or on `/dev/fd/N`, whose descriptor is checked.
    init(url: String, mountpoint: String, options: [String]) throws(CommandError) {
        guard HandedConnection.isName(mountpoint) else {
            self.init(url: url, mountpoint: mountpoint, options: options, connection: nil)
            return
        }
        guard let number = HandedConnection.number(in: mountpoint) else {
            throw CommandError(
                "\(mountpoint) names no descriptor; write /dev/fd/N with the number of a descriptor, or --fuse-socket PATH"
            )
        }
        try self.init(url: url, name: mountpoint, options: options, descriptor: number)
    }

    /// A mount that was handed in, under a name; its descriptor is checked.
    init(url: String, name: String, options: [String], descriptor: Int32) throws(CommandError) {
        let connection = HandedConnection(descriptor)
        do throws(FuseError) { try connection.check(as: name) } catch { throw CommandError(error) }
        self.init(url: url, mountpoint: name, options: options, connection: connection)
    }

    private init(url: String, mountpoint: String, options: [String], connection: HandedConnection?) {
        (self.url, self.mountpoint, self.options, self.connection) = (url, mountpoint, options, connection)
    }
}
