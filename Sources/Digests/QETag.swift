import Basics

/// Qiniu's hash of an object, "qetag" (Qiniu's tool of that name): SHA-1 over blocks of 4 MiB, with a first byte that tells how
/// the blocks were joined.
///
/// As a digest it is that of content stored in one piece or in parts of 4 MiB. Other parts make another value of the same
/// bytes: `joining`.
package struct QETag: Digest {
    /// In bytes.
    package static let blockSize: Int64 = 4 << 20

    /// What the first of the 21 bytes says.
    private enum Form: UInt8 {
        case oneBlock = 0x16
        case blocks = 0x96
        /// Parts of sizes that are not the block's.
        case parts = 0x9e
    }

    private var block = SHA1()
    private var blockLength: Int64 = 0
    /// Over the digests of the blocks that are full and have a successor.
    private var outer = SHA1()
    private var fullBlocks = 0

    package init() {}

    package mutating func update(_ bytes: RawSpan) {
        var offset = 0
        while offset < bytes.byteCount {
            if blockLength == Self.blockSize {
                outer.update(block.finish())
                (block, blockLength, fullBlocks) = (SHA1(), 0, fullBlocks + 1)
            }
            let end = min(bytes.byteCount, offset + Int(Self.blockSize - blockLength))
            block.update(bytes.extracting(offset..<end))
            blockLength += Int64(end - offset)
            offset = end
        }
    }

    package func finish() -> [UInt8] {
        guard fullBlocks > 0 else { return [Form.oneBlock.rawValue] + block.finish() }
        var outer = outer
        outer.update(block.finish())
        return [Form.blocks.rawValue] + outer.finish()
    }

    /// One part of an object: its own digest, and its size in bytes.
    package struct Part: Sendable, Hashable {
        package let digest: [UInt8]
        package let size: Int64

        package init(digest: [UInt8], size: Int64) { (self.digest, self.size) = (digest, size) }
    }

    /// The digest of an object that was stored in these parts.
    package static func joining(_ parts: [Part]) -> [UInt8] {
        guard let last = parts.last else { return QETag().finish() }
        let isRegular = parts.dropLast().allSatisfy { $0.size == blockSize } && last.size <= blockSize
        if isRegular, parts.count == 1 { return last.digest }
        var outer = SHA1()
        for part in parts { outer.update(Array(part.digest.dropFirst())) }
        return [(isRegular ? Form.blocks : Form.parts).rawValue] + outer.finish()
    }

    /// As the store writes it: 28 characters.
    package static func text(_ digest: [UInt8]) -> String { Base64.encode(digest, alphabet: .urlSafe) }

    /// Whether the hash tells of parts, so that it cannot be checked without knowing their sizes.
    package static func dependsOnParts(_ text: String) -> Bool {
        Base64.decode(text, alphabet: .urlSafe)?.first == Form.parts.rawValue
    }
}

/// The hash of content that is stored in parts of known sizes.
package struct PartedQETag: Digest {
    private var sizes: ArraySlice<Int64>
    private var parts: [QETag.Part] = []
    private var part = QETag()
    private var length: Int64 = 0

    package init() { self.init(sizes: []) }

    /// What comes behind the last of `sizes`, in bytes, is a part of its own.
    package init(sizes: [Int64]) { self.sizes = sizes[...] }

    package mutating func update(_ bytes: RawSpan) {
        var offset = 0
        while offset < bytes.byteCount {
            let size = sizes.first ?? .max
            if length == size {
                parts.append(QETag.Part(digest: part.finish(), size: size))
                (part, length, sizes) = (QETag(), 0, sizes.dropFirst())
                continue
            }
            let end = offset + Int(min(Int64(bytes.byteCount - offset), size - length))
            part.update(bytes.extracting(offset..<end))
            length += Int64(end - offset)
            offset = end
        }
    }

    package func finish() -> [UInt8] { QETag.joining(parts + [QETag.Part(digest: part.finish(), size: length)]) }
}
