import Basics
import HTTP
import ObjectStorage
import Settings

/// The stores of one command, one for each bucket and its options. Used by one thread.
final class CopySessions {
    private struct Place: Hashable {
        let scheme: BucketURL.Scheme
        let bucket: String?
        let options: OptionSources
        let directory: String
        let environment: [String: String]
    }

    private var known: [Place: ObjectStoreSession] = [:]

    /// The store of the place, checked to exist.
    func session(for target: ObjectTarget) throws(CommandError) -> ObjectStoreSession {
        let request = target.request
        guard request.bucket != nil || !target.path.isEmpty else {
            throw CommandError("\(request.url) names no bucket; write scheme://bucket/key")
        }
        let place = Place(
            scheme: request.scheme, bucket: request.bucket, options: request.sources, directory: request.directory,
            environment: request.environment)
        if let session = known[place] { return session }
        let session = try ObjectStoreSession(request, target: target)
        known[place] = session
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
