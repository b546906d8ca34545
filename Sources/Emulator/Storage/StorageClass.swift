/// The storage classes of all dialects; the raw value is what records say. A dialect shows a class it does not have as
/// its own nearest one.
package enum StorageClass: String, CaseIterable, Sendable {
    case standard = "STANDARD"
    case reducedRedundancy = "REDUCED_REDUNDANCY"
    case infrequentAccess = "STANDARD_IA"
    case oneZoneInfrequentAccess = "ONEZONE_IA"
    case intelligentTiering = "INTELLIGENT_TIERING"
    /// Archived and yet readable at once.
    case instantArchive = "GLACIER_IR"
    case archive = "GLACIER"
    case deepArchive = "DEEP_ARCHIVE"
    /// Below OSS's cold archive, which is the deep archive of others.
    case deepColdArchive = "DEEP_COLD_ARCHIVE"
    /// COS's classes over several zones.
    case multiZone = "MAZ_STANDARD"
    case multiZoneInfrequentAccess = "MAZ_STANDARD_IA"
    case multiZoneIntelligentTiering = "MAZ_INTELLIGENT_TIERING"

    /// Whether objects must be restored before they can be read.
    package var isFrozen: Bool { self == .archive || self == .deepArchive || self == .deepColdArchive }
}
