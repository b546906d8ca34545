import Basics
import HTTP
import ObjectStorage
import Settings

/// The stores of one command, one for each bucket.
final class CopySessions {
    private var known: [[String]: ObjectStoreSession] = [:]

    /// The store of the place, checked to exist.
    func session(for target: ObjectTarget) throws(CommandError) -> ObjectStoreSession {
        let request = target.request
        guard request.bucket != nil || !target.path.isEmpty else {
            throw CommandError("\(request.url) names no bucket; write scheme://bucket/key")
        }
        let name = [request.scheme.rawValue, request.settings.endpoint ?? "", request.bucket ?? "", request.url]
        if let session = known[name] { return session }
        let session = try ObjectStoreSession(request, target: target)
        known[name] = session
        return session
    }
}

/// The way from one store to another.
struct CopyRoute {
    let target: ObjectStoreSession
    /// The source's bucket; nil where it is the target's.
    let bucket: OtherBucket?
    let isOfOneProvider: Bool

    init(from source: ObjectStoreSession, to target: ObjectStoreSession) {
        let (from, to) = (source.request, target.request)
        isOfOneProvider =
            from.scheme == to.scheme && from.settings.endpoint == to.settings.endpoint
            && (from.bucket == to.bucket || from.bucket != nil && to.bucket != nil)
        guard isOfOneProvider, from.bucket != to.bucket, let name = from.bucket else {
            (self.target, bucket) = (isOfOneProvider ? source : target, nil)
            return
        }
        self.target = target
        bucket = OtherBucket(name, region: from.settings.region, store: source.store)
    }
}
