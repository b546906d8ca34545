import Basics
import ObjectStorage

/// Large objects as CSSP's own SDKs make them (CSSP SDKs, multipart upload): an object whose manifest names
/// `container/key/uploadId`, and its parts `key/uploadId/1`. Such an upload goes by the name of its directory, `key/uploadId/`,
/// which has a slash in it.
enum ForeignParts {
    private static let slash = UInt8(ascii: "/")

    /// The directory of the parts of the object at `key`; nil when its manifest names another.
    static func directory(ofManifest path: ByteString, at key: ObjectKey, in container: String) -> ByteString? {
        let bare = path.hasPrefix("/") ? path.dropFirst(1) : path
        let start = ByteString(container) + "/" + key.bytes + "/"
        guard bare.hasPrefix(start) else { return nil }
        let rest = bare.dropFirst(start.count)
        let upload = rest.hasSuffix("/") ? rest.dropLast(1) : rest
        return isUpload(upload.bytes) ? key.bytes + "/" + upload + "/" : nil
    }

    /// The object that `name`, a part or a directory of parts by its form, may belong to.
    static func owner(of name: ByteString) -> (key: ObjectKey, directory: ByteString)? {
        guard let end = name.bytes.lastIndex(of: slash) else { return nil }
        let part = name.bytes[(end + 1)...]
        guard part.isEmpty || isNumber(part) else { return nil }
        let directory = name.bytes[..<end]
        guard let start = directory.lastIndex(of: slash), start > 0, isUpload(directory[(start + 1)...]) else {
            return nil
        }
        return (ObjectKey(ByteString(directory[..<start])), ByteString(directory) + "/")
    }

    static func isPart(_ name: ByteString, in directory: ByteString) -> Bool {
        name.hasPrefix(directory) && isNumber(name.bytes[directory.count...])
    }

    /// iOS uses a UUID, Java and C++ a date and more digits.
    private static func isUpload(_ name: some Collection<UInt8>) -> Bool {
        if name.count >= 14, name.count <= 40, name.allSatisfy({ (48...57).contains($0) }) { return true }
        guard name.count == 36 else { return false }
        return name.enumerated().allSatisfy { index, byte in
            [8, 13, 18, 23].contains(index) ? byte == UInt8(ascii: "-") : Hex.value(byte) != nil
        }
    }

    private static func isNumber(_ name: some Collection<UInt8>) -> Bool {
        (1...10).contains(name.count) && name.allSatisfy { (48...57).contains($0) }
    }
}
