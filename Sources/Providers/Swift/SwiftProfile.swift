package import ObjectStorage

/// How one Swift-shaped service differs from the others, as data. Shared code reads this and never the service's name.
package struct SwiftProfile: Sendable, Hashable {
    /// How a large object names its content (Swift documentation, large objects).
    package enum LargeObjects: Sendable, Hashable {
        /// The manifest names each segment with its ETag and size.
        case named
        /// The manifest names a prefix, and the objects listed below it are the content.
        case prefixed
    }

    package var name: String
    package var largeObjects = LargeObjects.named
    /// Whether segments are in `<container>_segments`, as with other tools; otherwise in the container itself.
    package var hasSegmentContainer = true
    /// The prefix of the names of segments and of uploads in progress, in their container.
    package var segmentArea: String
    /// Whether the container for segments is created; otherwise it must exist.
    package var createsContainers = true
    /// Whether a HEAD precedes a creation, as an old server ignores `If-None-Match: *`.
    package var looksBeforeCreating = false
    /// Whether a container has a list of who may write into it; every container has one of who may read.
    package var hasWriters = true
    /// Whether only an empty page ends a listing; otherwise a short page does.
    package var listsUntilEmptyPage = false
    package var capabilities: Capabilities

    private static func capabilities(area: String) -> Capabilities {
        var capabilities = Capabilities()
        capabilities.listPage = 10_000
        // The prefix and suffix of a key in the name of an upload in progress.
        capabilities.longestKey = 1024 - area.utf8.count - SwiftSegments.uploads.utf8.count - 33
        capabilities.keyRules.areText = true
        capabilities.mostParts = 1000
        capabilities.largestObject = 1000 * capabilities.largestPart
        capabilities.metadataBudget = 4096
        capabilities.putIfMatch = false
        capabilities.copyCondition = false
        capabilities.metadataUpdate = .inPlace
        capabilities.headersAtCompletion = true
        capabilities.presign = false
        capabilities.usage = true
        capabilities.bucketProperties = true
        // An update that a busy container server refuses waits for the next round of the updater, five
        // minutes later by default.
        capabilities.listingLag = .seconds(600)
        return capabilities
    }

    /// OpenStack Swift, with the middleware that every installation has (Swift documentation, discoverability).
    package static let swift: SwiftProfile = {
        var profile = SwiftProfile(
            name: "swift", segmentArea: ".pailfs/", capabilities: capabilities(area: ".pailfs/"))
        // The server sends smaller segments at one a second (Swift documentation, dynamic large objects).
        profile.capabilities.smallestPart = 1 << 20
        return profile
    }()

    /// iFlytek's open storage (CSSP API documentation): one container, no bulk requests, large objects by prefix.
    package static let cssp: SwiftProfile = {
        let area = ".cssp-parts/"
        var profile = SwiftProfile(name: "cssp", segmentArea: area, capabilities: capabilities(area: area))
        profile.largeObjects = .prefixed
        profile.hasSegmentContainer = false
        profile.createsContainers = false
        profile.hasWriters = false
        profile.looksBeforeCreating = true
        profile.listsUntilEmptyPage = true
        // After the tenth segment of an answer the server sends one a second (CSSP SDKs, multipart upload).
        profile.capabilities.smallestPart = 64 << 20
        profile.capabilities.deleteBatch = 1
        return profile
    }()
}
