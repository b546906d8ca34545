/// How a server was seen to depart from its protocol. The mount works around each; the descriptions say how.
package enum StoreQuirk: String, Sendable, Hashable, CaseIterable {
    case ifMatchUnquoted = "if-match-unquoted"
    case ifMatchUnheeded = "if-match-unheeded"
    case ifNoneMatchUnheeded = "if-none-match-unheeded"
    case copySourceUnheeded = "copy-source-unheeded"
    case putETag = "put-etag"
    case completionETag = "completion-etag"
    case copyETag = "copy-etag"
    case partCopyUnheeded = "part-copy-unheeded"
    case markerIsFile = "marker-is-file"
    case lineBreaksLost = "line-breaks-lost"
    case keysAreText = "keys-are-text"
    case controlsRefused = "controls-refused"
    case longKeysRefused = "long-keys-refused"
    case metadataValues = "metadata-values"
    case singleDeletes = "single-deletes"
    case copiesRefused = "copies-refused"
    case partCopiesRefused = "part-copies-refused"
    case markerCopiesRefused = "marker-copies-refused"
    case uploadsRefused = "uploads-refused"
    case lengthsMissing = "head-without-length"
    case opaqueETags = "etag-no-checksum"
}

extension StoreQuirk: CustomStringConvertible {
    package var description: String {
        switch self {
        case .ifMatchUnquoted: "refuses If-Match with the ETag in quotes, so writes send the ETag without quotes"
        case .ifMatchUnheeded:
            "does not check If-Match of a write, so a HEAD right before each write checks the version"
        case .ifNoneMatchUnheeded:
            "does not check If-None-Match of a write, so a HEAD right before each write checks that the object does not exist"
        case .copySourceUnheeded:
            "copies another version than the request names, so a HEAD right before each copy checks the version"
        case .putETag: "answers a PUT with an ETag that the object does not have, so a HEAD follows each PUT"
        case .completionETag:
            "completes an upload with an ETag that the object does not have, so a HEAD follows each completion"
        case .copyETag: "answers a copy with an ETag that the object does not have, so a HEAD follows each copy"
        case .partCopyUnheeded:
            "stores an empty part instead of a copied one, so pailfs downloads and uploads the bytes of such parts"
        case .markerIsFile:
            "keeps the object \"name/\" as a file, so mkdir fails and empty directories vanish"
        case .lineBreaksLost: "does not find keys with a line break, so pailfs refuses such names"
        case .keysAreText: "refuses keys that are not UTF-8, so pailfs refuses such names"
        case .controlsRefused: "refuses keys with control characters, so pailfs refuses such names"
        case .longKeysRefused: "refuses keys shorter than 1024 bytes, so pailfs refuses such paths"
        case .singleDeletes: "refuses to delete several objects in one request, so pailfs deletes them one by one"
        case .copiesRefused: "refuses to copy objects, so pailfs downloads and uploads their bytes"
        case .partCopiesRefused:
            "refuses to copy objects into parts, so pailfs downloads and uploads the bytes of such parts"
        case .markerCopiesRefused: "refuses to copy the object of a directory, so pailfs creates it with a PUT"
        case .uploadsRefused: "refuses uploads in parts, so pailfs sends each file with one PUT"
        case .lengthsMissing:
            "answers a HEAD without Content-Length, so a listing or a GET of one byte follows such a HEAD"
        case .opaqueETags: "answers with ETags that look like an MD5 but are not, so pailfs compares no ETag with bytes"
        case .metadataValues: "refuses long metadata values, so pailfs refuses long attributes"
        }
    }
}
