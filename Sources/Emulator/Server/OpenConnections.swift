import NIOCore
import Synchronization

/// The connections of a server, so that stopping can end them one by one while the event loops still run. Locked by its
/// own mutex, a leaf.
final class OpenConnections: Sendable {
    private let channels = Mutex<[ObjectIdentifier: any Channel]>([:])

    func add(_ channel: any Channel) {
        let id = ObjectIdentifier(channel)
        channels.withLock { $0[id] = channel }
        channel.closeFuture.whenComplete { [self] _ in channels.withLock { _ = $0.removeValue(forKey: id) } }
    }

    /// Closes every connection and returns when all are closed.
    func closeAll() async {
        for channel in channels.withLock({ Array($0.values) }) { try? await channel.close().get() }
    }
}
