import Basics
import Metadata
import ObjectStorage

/// `user.pailfs.hidden` of a directory: the keys in it that `names=raw` has no name for.
extension BucketFileSystem {
    /// Linux returns no longer value (XATTR_SIZE_MAX of linux/limits.h).
    private static let longestValue = 65536

    /// One key a line, with `%`, control characters and line ends as `%XX`; empty when everything is shown. Keys that do not fit
    /// are counted in a last line that begins with a blank, as no line of a key does.
    func hiddenKeys(in directory: InodeNumber) async throws(FileSystemError) -> ByteString {
        guard try entry(directory).attributes.kind == .directory else {
            throw FileSystemError(.noData, "only directories have hidden keys")
        }
        if let listing = listingIfNeeded(of: directory) {
            defer { listing.leave() }
            while !listing.progress.isEnded { try await listing.wait(after: listing.progress.pages) }
            if let error = listing.progress.error { throw error }
        }
        let components = try cached { metadata throws(MetadataError) in
            try metadata.hiddenComponents(of: directory, limit: .max)
        }
        let prefix = try cached { metadata throws(MetadataError) in try metadata.key(of: directory) } ?? ""
        var lines: [UInt8] = []
        for (index, component) in components.enumerated() {
            let line = Self.line(prefix + component)
            guard lines.count + line.count + 32 < Self.longestValue else {
                lines += " \(components.count - index) more\n".utf8
                break
            }
            lines += line
        }
        return ByteString(lines)
    }

    private static func line(_ key: ByteString) -> [UInt8] {
        key.bytes.flatMap { byte -> [UInt8] in
            let isPlain = byte > 0x20 && byte != 0x7f && byte != UInt8(ascii: "%")
            return isPlain ? [byte] : Array("%\(Hex.encode([byte], uppercase: true))".utf8)
        } + [UInt8(ascii: "\n")]
    }
}
