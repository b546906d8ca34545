import Basics
package import ObjectStorage
import Staging

/// One part to bring to the store.
struct PartTransfer: Sendable, Hashable {
    var range: ByteRange
    /// From 1; grows with the offset, with gaps where parts were copied together.
    var number: Int
    /// Copied by the store from the base; otherwise sent from staging.
    var isCopy: Bool
}

/// Which parts an upload still lacks.
struct PartPlan {
    let layout: PartLayout
    /// Most bytes of one part copy; 0 when the store cannot copy or there is no base to copy from.
    private let largestCopy: Int64
    /// Most bytes that parts copied together have; 0 when they must stay apart.
    private let mergedCopy: Int64

    /// `baseSize` is the length of the object parts are copied from, 0 without one.
    init(layout: PartLayout, baseSize: Int64, options: CommitOptions, capabilities: Capabilities) {
        self.layout = layout
        let canCopy = capabilities.canCopyParts(ofSize: baseSize)
        largestCopy = canCopy ? min(capabilities.largestCopy, capabilities.largestPart) : 0
        // A part merged from several leaves out the numbers of the others.
        let canMerge = capabilities.partGaps && !capabilities.equalParts
        mergedCopy = canMerge ? min(options.copySize, largestCopy) : 0
    }

    /// The parts that neither `sent` nor the transfers under way cover, in order. Parts whose numbers are in `named` keep them.
    func missing(
        in extents: ExtentMap, sent: SentParts, underWay: [ByteRange], named: Set<Int> = []
    ) -> [PartTransfer] {
        let size = extents.size
        var (offset, list): (Int64, [PartTransfer]) = (0, [])
        while offset < size {
            let range = part(at: offset, size)
            if let part = sent.part(at: offset), isWhole(part.range, size) {
                offset = part.range.upperBound
            } else if underWay.contains(where: { $0.overlaps(range) }) {
                offset = range.upperBound
            } else {
                let isCopy = range.length <= largestCopy && extents.isEntirely(.base, in: range)
                var end = range.upperBound
                while isCopy, end < size {
                    let next = part(at: end, size)
                    guard next.upperBound - offset <= mergedCopy, extents.isEntirely(.base, in: next),
                        !sent.overlaps(next), !underWay.contains(where: { $0.overlaps(next) }),
                        named.isEmpty || !named.contains(layout.index(at: end) + 1)
                    else { break }
                    end = next.upperBound
                }
                list.append(
                    PartTransfer(range: offset..<end, number: layout.index(at: offset) + 1, isCopy: isCopy))
                offset = end
            }
        }
        return list
    }

    /// Whether a part ends where one may end in a file of `size` bytes.
    private func isWhole(_ range: ByteRange, _ size: Int64) -> Bool {
        part(at: range.upperBound - 1, size).upperBound == range.upperBound
    }

    private func part(at offset: Int64, _ size: Int64) -> ByteRange {
        layout.range(of: layout.index(at: offset)).clamped(to: 0..<size)
    }
}

extension Capabilities {
    /// Whether the store copies parts of an object of `size` bytes. S3 takes ranges only of sources above 5 MiB
    /// (UploadPartCopy, x-amz-copy-source-range).
    package func canCopyParts(ofSize size: Int64) -> Bool { partCopy && size > smallestPart }
}
