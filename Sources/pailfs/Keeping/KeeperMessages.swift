/// A request of a mount's holder to its keeper. A connection is about one mount, and the mount is served as long as it lasts: the
/// holder and its workers have the same end of it.
struct KeeperRequest: Codable, Sendable, Equatable {
    enum Act: String, Codable, Sendable {
        /// Asks for a mount, whose name comes with it.
        case claim
        /// Hands the descriptors of the connection to the kernel and of the holder's memory to the keeper.
        case keep
        /// The mount has ended.
        case forget
    }

    let act: Act
    /// The mountpoint.
    var mount: String?
    /// In seconds: how long the mount is kept while no process serves it.
    var patience: Double?
}

/// An answer of the keeper. With `kept` to a claim come the two descriptors of the mount.
struct KeeperAnswer: Codable, Sendable, Equatable {
    enum State: String, Codable, Sendable {
        /// The keeper has no such mount; the connection has the name now.
        case free
        /// The keeper has the mount.
        case kept
        /// Another connection has the mount.
        case served
        /// The request makes no sense here.
        case refused
    }

    let state: State
    /// The process that claimed a served mount; 0 where its number is not visible to the keeper.
    var process: Int32?
}
