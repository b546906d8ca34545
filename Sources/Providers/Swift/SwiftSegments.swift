import Basics
import ObjectStorage

/// The location and the names of segments and uploads in progress.
///
/// A segment is `<area><upload>/<8 digits>`, so names are in the order of the parts, and an upload has a prefix. An upload in
/// progress is an empty object `<area>uploads/<key>/<upload>` with the headers of the later object. The key is no part of a
/// segment's name, so that this is never too long.
struct SwiftSegments: Sendable {
    static let uploads = "uploads/"
    private static let digits = 8

    let container: String
    let area: ByteString
    /// Whether the area is in the container that the mount shows.
    private let isAmongObjects: Bool

    init(_ settings: SwiftStore.Settings) {
        let own = settings.profile.hasSegmentContainer ? "\(settings.container)_segments" : settings.container
        container = settings.segmentContainer ?? own
        area = ByteString(settings.profile.segmentArea)
        isAmongObjects = container == settings.container || settings.container.hasSuffix("_segments")
    }

    /// Whether a name of the container is not an object of the mount.
    func hides(_ name: ByteString) -> Bool { isAmongObjects && name.hasPrefix(area) }

    /// The prefix that no object's name may have; nil if there is none.
    var reserved: ByteString? { isAmongObjects ? area : nil }

    /// Where a listing continues after it has reached the area.
    var endOfArea: ByteString { area + "\u{10FFFF}" }

    /// The prefix of the names of an upload's segments. An upload with a slash is a directory itself: see `ForeignParts`.
    func directory(of upload: UploadID) -> ByteString {
        Self.isDirectory(upload) ? ByteString(upload.text) : area + ByteString(upload.text) + "/"
    }

    static func isDirectory(_ upload: UploadID) -> Bool { upload.text.utf8.contains(UInt8(ascii: "/")) }

    /// The upload that a name in the area is a segment of; nil for other names.
    func upload(ofSegment name: ByteString) -> UploadID? {
        guard name.hasPrefix(area), let slash = name.bytes.lastIndex(of: UInt8(ascii: "/")), slash >= area.count else {
            return nil
        }
        return upload(named: name.bytes[area.count..<slash])
    }

    func segment(_ number: Int, of upload: UploadID) -> ByteString {
        let text = String(number)
        let padding = String(repeating: "0", count: max(0, Self.digits - text.utf8.count))
        return directory(of: upload) + ByteString(padding + text)
    }

    /// The part number of a segment of `upload`; nil for other names.
    func number(of name: ByteString, in upload: UploadID) -> Int? {
        let directory = directory(of: upload)
        if Self.isDirectory(upload), ForeignParts.isPart(name, in: directory) {
            return Int(name.dropFirst(directory.count).description)
        }
        guard name.hasPrefix(directory), name.count == directory.count + Self.digits else { return nil }
        return Int(name.dropFirst(directory.count).description)
    }

    /// The object of an upload in progress.
    func marker(_ key: ObjectKey, _ upload: UploadID) -> ByteString {
        markers(prefix: key.bytes) + "/" + ByteString(upload.text)
    }

    /// The prefix of the uploads to keys with `prefix`.
    func markers(prefix: ByteString) -> ByteString { area + ByteString(Self.uploads) + prefix }

    /// The upload that a marker represents; nil for other names.
    func upload(ofMarker name: ByteString) -> (key: ObjectKey, upload: UploadID)? {
        let start = markers(prefix: "").count
        guard name.hasPrefix(markers(prefix: "")), let slash = name.bytes.lastIndex(of: UInt8(ascii: "/")),
            slash > start, let upload = upload(named: name.bytes[(slash + 1)...])
        else { return nil }
        return (ObjectKey(ByteString(name.bytes[start..<slash])), upload)
    }

    /// The upload to which `/container/name` or `container/prefix` belongs, when this program has made it.
    func upload(ofPath path: ByteString) -> UploadID? {
        var rest = path.hasPrefix("/") ? path.dropFirst(1) : path
        for piece in [ByteString(container) + "/", area] {
            guard rest.hasPrefix(piece) else { return nil }
            rest = rest.dropFirst(piece.count)
        }
        guard let slash = rest.bytes.firstIndex(of: UInt8(ascii: "/")) else { return nil }
        return upload(named: rest.bytes[..<slash])
    }

    private func upload(named name: some Collection<UInt8>) -> UploadID? {
        guard name.count == 32, name.allSatisfy({ Hex.value($0) != nil }) else { return nil }
        return UploadID(String(decoding: name, as: UTF8.self))
    }
}

/// An upload in progress.
struct SwiftUpload: Sendable {
    var key: ObjectKey
    var metadata: ObjectMetadata
}
