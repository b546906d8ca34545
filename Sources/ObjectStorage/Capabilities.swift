/// What a store can do and its limits, as data that callers plan with. Sizes in bytes.
package struct Capabilities: Sendable, Hashable {
    /// Keys on one listing page.
    package var listPage = 1000
    package var longestKey = 1024
    package var keyRules = KeyRules()
    /// Largest object of one put.
    package var largestPut: Int64 = 5 << 30
    /// Largest source of one copy request.
    package var largestCopy: Int64 = 5 << 30
    package var largestObject: Int64 = 5 << 40
    package var smallestPart: Int64 = 5 << 20
    package var largestPart: Int64 = 5 << 30
    package var mostParts = 10_000
    /// Every part but the last must have the same size (Cloudflare R2).
    package var equalParts = false
    /// Part numbers may have gaps (COS: they follow from 1 without a gap).
    package var partGaps = true
    /// A completion may leave out parts of the upload; Ceph refuses that, and wants every part named.
    package var surplusParts = true
    /// Most keys of one batch delete; 1 when there is none.
    package var deleteBatch = 1000
    /// Most bytes of names and values of user metadata together.
    package var metadataBudget = 2048
    /// Most bytes of one value of user metadata, where that is less than all of them together.
    package var longestMetadataValue: Int?
    /// Bytes of the longest value of user metadata that the server has kept so far; longer ones are untried.
    package var longestTriedValue = Int.max
    package var putIfAbsent = true
    package var putIfMatch = true
    package var copyCondition = true
    /// A copy has its headers at once. Otherwise it has those of its source until a second request has changed them.
    package var copySetsHeaders = true
    /// The completion of an upload honours the conditions that `putIfAbsent` and `putIfMatch` allow.
    package var completionCondition = true
    package var deleteIfMatch = false
    /// A copy whose source has another ETag than the request names is refused.
    package var copySourceCondition = true
    package var partCopy = true
    package var metadataUpdate = MetadataUpdate.copy
    /// The headers of an object that is made of parts can be given when it is completed.
    package var headersAtCompletion = false
    /// The headers that the store keeps with an object; the others of `ObjectMetadata` are lost.
    package var headers = Set(StoredHeader.allCases)
    /// Uploads in progress can be listed.
    package var listUploads = true
    /// Directory markers `dir/` hold metadata and are listed.
    package var markers = true
    package var presign = true
    package var accessControl = false
    package var tags = false
    /// The classes an object can be moved to, the standard one first; empty when there is only one.
    package var storageClasses: [String] = []
    /// Classes whose objects cannot be read before they are restored.
    package var archiveClasses: Set<String> = [
        "GLACIER", "DEEP_ARCHIVE", "ARCHIVE", "Archive", "ColdArchive", "DeepColdArchive",
    ]
    /// Archived objects can be restored.
    package var restore = false
    /// An object can get another key in one request (`move`).
    package var move = false
    /// Symbolic links are objects of their own kind, and listings show them as such.
    package var symlinks = false
    package var usage = false
    /// The bucket itself has metadata and a list of who may read it.
    package var bucketProperties = false
    /// Buckets can keep the versions of their objects.
    package var versions = false
    /// The first component of every key is a bucket: nothing else can be made or removed at that level, or copied from one bucket
    /// to another.
    package var bucketsInKeys = false
    /// Where the keys have buckets: the names that new ones may have; nil where buckets can be neither created nor deleted.
    package var newBuckets: BucketNameRule?
    /// How long a listing may lack a write or delete that the store has acknowledged; zero if it never does.
    package var listingLag = Duration.zero
    /// The limits that the options of the mount set besides.
    package var limits = MountLimits()
    /// The prices of requests; nil where no price list is known, as for other servers with the S3 protocol.
    package var prices: RequestPrices?
    /// Departures from its protocol that this process has seen the server make.
    package var quirks: Set<StoreQuirk> = []

    package init() {}

    /// Sets every condition, to find out which ones a server honours.
    package mutating func sendsEveryCondition() {
        (putIfAbsent, putIfMatch, copyCondition, completionCondition) = (true, true, true, true)
        (deleteIfMatch, copySourceCondition) = (true, true)
    }

    /// How stored headers change after the put.
    package enum MetadataUpdate: Sendable, Hashable {
        /// A copy of the object onto itself: a new version, perhaps a new ETag.
        case copy
        /// In place; the version stays.
        case inPlace
        case none
    }
}
