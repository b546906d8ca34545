/// An immutable-by-convention string of bytes: names and keys as the kernel and the stores have them.
///
/// File names and object keys need not be UTF-8, so they never travel as `String`. Order is by unsigned byte value,
/// which is the order every store lists in.
package struct ByteString: Hashable, Sendable {
    package var bytes: [UInt8]

    package init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }
    package init(_ string: String) { bytes = Array(string.utf8) }

    package var count: Int { bytes.count }
    package var isEmpty: Bool { bytes.isEmpty }
    package var last: UInt8? { bytes.last }
    package var first: UInt8? { bytes.first }

    package func hasPrefix(_ prefix: ByteString) -> Bool { bytes.starts(with: prefix.bytes) }
    package func hasSuffix(_ suffix: ByteString) -> Bool {
        count >= suffix.count && bytes[(count - suffix.count)...].elementsEqual(suffix.bytes)
    }
    /// The bytes from `index` on; empty past the end.
    package func dropFirst(_ length: Int) -> ByteString { ByteString(bytes.dropFirst(length)) }
    package func dropLast(_ length: Int) -> ByteString { ByteString(bytes.dropLast(length)) }

    package static func + (left: ByteString, right: ByteString) -> ByteString { ByteString(left.bytes + right.bytes) }
    package static func += (left: inout ByteString, right: ByteString) { left.bytes += right.bytes }
}

extension ByteString: Comparable {
    package static func < (left: ByteString, right: ByteString) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }
}

extension ByteString: ExpressibleByStringLiteral {
    package init(stringLiteral value: String) { self.init(value) }
}

extension ByteString: CustomStringConvertible {
    /// The bytes as text for people; ill-formed UTF-8 shows as replacement characters, so never parse this.
    package var description: String { String(decoding: bytes, as: UTF8.self) }
}
