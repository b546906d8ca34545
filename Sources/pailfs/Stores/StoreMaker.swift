import Basics
import FuseBridge
import HTTP
import ObjectStorage
import Providers
import Settings

/// Makes the store that a mount's URL names: a bucket of a provider, or all buckets of its account.
///
/// Reads the settings that all providers' stores have in common, once; a provider's own settings are in the file of its name.
/// Sends no request before the store is used.
struct StoreMaker: Sendable {
    let request: MountRequest
    let engine: HTTPEngine
    let time: any TimeSource
    /// Called once for each way in which a server is seen to depart from its protocol.
    var onQuirk: (@Sendable (StoreQuirk) -> Void)?
    /// Sends every condition, also where servers of the kind are not known to honour it.
    var probes = false

    var settings: MountSettings { request.settings }

    /// The option, or else the endpoint that is `found` now or was found when the bucket was mounted.
    func endpoint(_ found: String?) -> String? { settings.endpoint ?? request.keptStore?.endpoint ?? found }

    func make() throws(ObjectStoreError) -> any ObjectStore {
        let provider = try provider()
        if let bucket = request.bucket { return try provider.open(BucketEntry(name: bucket)) }
        guard let directory = provider.directory else {
            throw ObjectStoreError(
                .notSupported, .listBuckets, code: "NoListing",
                message:
                    "the buckets of an account cannot be listed at this store; name one, such as \(request.scheme.rawValue)://bucket"
            )
        }
        let names = settings.buckets == .change ? provider.bucketNames : nil
        return AccountStore(
            directory, capabilities: provider.capabilities, newBuckets: names, open: provider.open)
    }

    /// The stores of one scheme.
    struct Provider {
        /// The capabilities of its buckets.
        var capabilities: Capabilities
        /// nil where buckets cannot be listed.
        var directory: (any BucketDirectory)?
        /// The names that buckets may have.
        var bucketNames = BucketNameRule()
        /// Makes the store of one bucket.
        var open: AccountStore.Opener
    }

    private func provider() throws(ObjectStoreError) -> Provider {
        switch request.scheme {
        case .s3: return try s3()
        case .oss: return try oss()
        case .cos: return try cos()
        case .swift: return try swift()
        case .cssp: return try cssp()
        case .kodo: return try kodo()
        }
    }

    /// The user's own key for encryption by the store (SSE-C), from its file.
    func customerKey() throws(ObjectStoreError) -> Secret? {
        guard let path = settings.customerKeyFile else { return nil }
        func bad(_ reason: String) -> ObjectStoreError {
            ObjectStoreError(
                .invalidRequest, .checkAccess, code: "BadKeyFile", message: "sse-customer-key-file \(path): \(reason)")
        }
        let bytes: [UInt8]
        do { bytes = try File(path, followsLinks: true).read(0..<4096) } catch { throw bad("\(error)") }
        if bytes.count == 32 { return Secret(Base64.encode(bytes)) }
        let text = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
        guard let key = Base64.decode(text), key.count == 32 else { throw bad("it has no key of 32 bytes") }
        return Secret(text)
    }
}

extension MountRequest {
    /// Reads the text of a file with credentials. A relative path starts where the mount was asked for: the process that serves
    /// it works in another directory.
    var credentialText: @Sendable (String) -> String? {
        { [directory] path in CredentialFiles.readText(Self.absolute(path, in: directory)) }
    }
}
