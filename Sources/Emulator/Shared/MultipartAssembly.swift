import Basics
import Digests

extension ChosenPart {
    /// From a `Part` of a completion; nil unless it has a number and an ETag.
    init?(_ element: XMLElement) {
        guard let number = element.text("PartNumber").flatMap({ Int($0) }), let etag = element.text("ETag") else {
            return nil
        }
        self.init(number: number, etag: etag.filter { $0 != "\"" }.lowercased())
    }
}

/// The entity tag of an object that came in parts: the MD5 of their MD5s and how many they are.
enum MultipartTag {
    static func text(_ parts: [PartRecord]) -> String {
        "\(Hex.encode(MD5.of(parts.flatMap(\.md5))))-\(parts.count)"
    }
}

extension CRC {
    /// What `finish` made the bytes of.
    static func value(ofDigest digest: [UInt8]) -> Value { digest.reduce(Value.zero) { $0 << 8 | Value($1) } }
}

extension CRC64ECMA {
    /// The checksum of parts in a row; nil when one of them came through a dialect that computes none.
    static func combine(_ parts: [PartRecord]) -> UInt64? {
        var whole = CRC64ECMA().value
        for part in parts {
            guard let crc64 = part.crc64 else { return nil }
            whole = combine(whole, crc64, secondLength: part.size)
        }
        return whole
    }
}
