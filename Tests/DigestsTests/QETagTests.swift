import Basics
import Digests
import Testing

/// Known hashes, one of them published by Qiniu.
@Suite struct QETagTests {
    struct Vector: CustomTestStringConvertible, Sendable {
        let testDescription: String
        /// In bytes, one number for each part; a single one is an object in one piece.
        let parts: [[UInt8]]
        let hash: String

        init(_ description: String, _ parts: [[UInt8]], _ hash: String) {
            (testDescription, self.parts, self.hash) = (description, parts, hash)
        }
    }

    private static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }
    private static let mebibyte = 1 << 20

    static let wholes = [
        Vector("empty", [[]], "Fto5o-5ea0sNMlW_75VgGJCv2AcJ"),
        Vector("hello", [Array("hello".utf8)], "Fqr0xh3cxeii2r7eDztILNmuqUNN"),
        Vector("4 MiB of zeros", [zeros(4 * mebibyte)], "FivMvS848VwT631aif2dhfWV4jvD"),
        Vector("a byte more", [zeros(4 * mebibyte + 1)], "lhCFgki5yzon0rjN9uJusf6qtsF6"),
        Vector("10 MiB of zeros", [zeros(10 * mebibyte)], "lrgta7Rm8vkyiaBmECBeS8jIYEuw"),
        Vector("6 MiB of zeros", [zeros(6 * mebibyte)], "lvxwSaB2VXJaY8dXRiat4RlrTPTZ"),
    ]

    static let parts = [
        Vector("8 + 2 MiB", [zeros(8 * mebibyte), zeros(2 * mebibyte)], "njWAiy6aPsXZnOSJ74MjefgA0cxp"),
        Vector("one part of 6 MiB", [zeros(6 * mebibyte)], "nphfcf8MKJoqC0xCkMVyxsrKJD8c"),
        Vector("hello + world", [Array("hello".utf8), Array("world".utf8)], "ns56DcSIfBFUENXjdhsJTIvl3Rcu"),
        Vector("one small part", [Array("hello".utf8)], "Fqr0xh3cxeii2r7eDztILNmuqUNN"),
        Vector(
            "4 + 4 + 2 MiB, as if whole", [zeros(4 * mebibyte), zeros(4 * mebibyte), zeros(2 * mebibyte)],
            "lrgta7Rm8vkyiaBmECBeS8jIYEuw"),
    ]

    @Test(arguments: wholes) func aWholeHasItsPublishedHash(_ vector: Vector) {
        #expect(QETag.text(QETag.of(vector.parts[0])) == vector.hash)
    }

    @Test(arguments: parts) func partsHaveTheirPublishedHash(_ vector: Vector) {
        let parts = vector.parts.map { QETag.Part(digest: QETag.of($0), size: Int64($0.count)) }
        #expect(QETag.text(QETag.joining(parts)) == vector.hash)
        #expect(QETag.dependsOnParts(vector.hash) == vector.hash.hasPrefix("n"))
    }

    @Test(arguments: [1 << 20, 4 << 20, 4 << 20 | 1, 7 << 20]) func piecesOfAnySizeMakeTheSameHash(piece: Int) {
        let bytes = (0..<(10 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 7) }
        var hasher = QETag()
        for start in stride(from: 0, to: bytes.count, by: piece) {
            hasher.update(Array(bytes[start..<min(bytes.count, start + piece)]))
        }
        #expect(hasher.finish() == QETag.of(bytes))
    }
}
