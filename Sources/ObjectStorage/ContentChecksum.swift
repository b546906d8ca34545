package import Digests

/// A checksum of the bytes of an object, or of one of its parts, from the store. Digests have their highest byte first.
package enum ContentChecksum: Sendable, Hashable {
    case md5([UInt8])
    case crc32([UInt8])
    case crc32c([UInt8])
    case crc64nvme([UInt8])
    case crc64ecma([UInt8])
    case sha1([UInt8])
    case sha256([UInt8])
    /// Kodo's hash. `partSizes` is in bytes, and empty for content in one piece.
    case qetag([UInt8], partSizes: [Int64])

    package var digest: [UInt8] {
        switch self {
        case .md5(let digest), .crc32(let digest), .crc32c(let digest), .crc64nvme(let digest),
            .crc64ecma(let digest), .sha1(let digest), .sha256(let digest), .qetag(let digest, _):
            digest
        }
    }

    /// An empty digest of this kind, to be updated with the bytes in their order.
    package func begin() -> any Digest {
        switch self {
        case .md5: MD5()
        case .crc32: CRC32()
        case .crc32c: CRC32C()
        case .crc64nvme: CRC64NVME()
        case .crc64ecma: CRC64ECMA()
        case .sha1: SHA1()
        case .sha256: SHA256()
        case .qetag(_, let sizes): sizes.isEmpty ? QETag() : PartedQETag(sizes: sizes)
        }
    }

    /// The kind and the value of a CRC, for which the checksum of a whole follows from those of its parts; nil for other
    /// checksums.
    package var crc: (kind: CRCKind, value: UInt64)? {
        let kind: CRCKind
        switch self {
        case .crc32: kind = .crc32
        case .crc32c: kind = .crc32c
        case .crc64nvme: kind = .crc64nvme
        case .crc64ecma: kind = .crc64ecma
        case .md5, .sha1, .sha256, .qetag: return nil
        }
        return kind.value(ofDigest: digest).map { (kind, $0) }
    }

    /// For messages.
    package var name: String {
        switch self {
        case .md5: "MD5"
        case .crc32: "CRC-32"
        case .crc32c: "CRC-32C"
        case .crc64nvme, .crc64ecma: "CRC-64"
        case .sha1: "SHA-1"
        case .sha256: "SHA-256"
        case .qetag: "hash"
        }
    }
}

/// A range of an object and its checksum.
package struct CheckedPart: Sendable, Hashable {
    /// In bytes.
    package var size: Int64
    package var checksum: ContentChecksum

    package init(size: Int64, _ checksum: ContentChecksum) { (self.size, self.checksum) = (size, checksum) }
}
