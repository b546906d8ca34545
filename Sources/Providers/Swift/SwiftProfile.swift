package import ObjectStorage

/// What one Swift-shaped service does differently, as data. Shared code asks this and never which service it is.
package struct SwiftProfile: Sendable, Hashable {
    /// How a large object says what it is made of (swift.md sections 7.1 and 7.2).
    package enum LargeObjects: Sendable, Hashable {
        /// The manifest names each segment with its ETag and size.
        case named
        /// The manifest names a prefix, and whatever is listed below it is the content.
        case prefixed
    }

    package var name: String
    package var largeObjects = LargeObjects.named
    /// Segments live in `<container>_segments`, as other tools have it; otherwise in the container itself.
    package var hasSegmentContainer = true
    /// What the names of segments and of uploads in progress start with, in the container they live in.
    package var segmentArea: String
    /// Whoever may not make containers must find the one for segments.
    package var createsContainers = true
    /// An old server ignores `If-None-Match: *`, so a HEAD goes before it.
    package var looksBeforeCreating = false
    /// Only an empty page ends a listing; otherwise one that is not full does, if it is a short one.
    package var listsUntilEmptyPage = false
    package var capabilities: Capabilities

    private static func capabilities(area: String) -> Capabilities {
        var capabilities = Capabilities()
        capabilities.listPage = 10_000
        // What a key gets in front and behind as the name of an upload in progress.
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
        // swift.md section 12. What a busy container server does not take at once waits for the next round of the
        // updater, five minutes later unless set otherwise.
        capabilities.listingLag = .seconds(600)
        return capabilities
    }

    /// OpenStack Swift, with the middleware that every installation has (swift.md section 10).
    package static let swift: SwiftProfile = {
        var profile = SwiftProfile(
            name: "swift", segmentArea: ".pailfs/", capabilities: capabilities(area: ".pailfs/"))
        // Of smaller segments the server sends one a second (swift.md section 7.2).
        profile.capabilities.smallestPart = 1 << 20
        return profile
    }()

    /// iFlytek's open storage (cssp.md): one container, no bulk requests, large objects by prefix.
    package static let cssp: SwiftProfile = {
        let area = ".cssp-parts/"
        var profile = SwiftProfile(name: "cssp", segmentArea: area, capabilities: capabilities(area: area))
        profile.largeObjects = .prefixed
        profile.hasSegmentContainer = false
        profile.createsContainers = false
        profile.looksBeforeCreating = true
        profile.listsUntilEmptyPage = true
        // After the tenth segment of an answer the server sends one a second (cssp.md section 7).
        profile.capabilities.smallestPart = 64 << 20
        profile.capabilities.deleteBatch = 1
        return profile
    }()
}
