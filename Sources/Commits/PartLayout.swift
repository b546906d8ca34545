package import Basics
package import ObjectStorage

/// Where the parts of a multipart upload begin and end: a function of the offset alone, so that parts can be sent
/// before the size of the file is known.
///
/// Part sizes double from tier to tier, with as many parts in each tier and as few tiers as it takes for all parts the store
/// allows to hold 5 TiB, or its largest object where that is less, but no more than half of what they hold at their largest:
/// otherwise the first part would be among the largest already. Where all parts must be alike there is one tier. A file that
/// outgrows a layout needs another one and another upload.
package struct PartLayout: Sendable, Hashable {
    private struct Tier: Sendable, Hashable {
        let firstIndex: Int
        let start: Int64
        let partSize: Int64
    }

    private let tiers: [Tier]
    /// Bytes that all parts hold together.
    package let capacity: Int64

    /// The layout with parts of `partSize` bytes (or the store's smallest) first; `size` is what the file is known to
    /// have.
    package init(partSize: Int64, size: Int64, capabilities: Capabilities) {
        var unit = min(max(partSize, capabilities.smallestPart, 1), capabilities.largestPart)
        let mostParts = max(capabilities.mostParts, 1)
        let target = max(size, capabilities.equalParts ? 1 : Self.usualCapacity(mostParts, capabilities))
        while true {
            for count in 1...(capabilities.equalParts ? 1 : min(mostParts, 40)) {
                let (tiers, capacity) = Self.tiers(count, unit: unit, mostParts, largest: capabilities.largestPart)
                guard capacity >= target || (unit == capabilities.largestPart && count == 1) else { continue }
                (self.tiers, self.capacity) = (tiers, capacity)
                return
            }
            // Equal parts grow in steps, so that a file that outgrows its layout starts over a few times at most.
            let (larger, overflow) = unit.multipliedReportingOverflow(by: capabilities.equalParts ? 8 : 2)
            unit = overflow ? capabilities.largestPart : min(larger, capabilities.largestPart)
        }
    }

    /// The part that holds `offset`, counted from 0. The last part has no end.
    package func index(at offset: Int64) -> Int {
        let tier = tiers.last { $0.start <= offset } ?? tiers[0]
        return tier.firstIndex + Int((offset - tier.start) / tier.partSize)
    }

    /// The bytes of part `index` in a file without end.
    package func range(of index: Int) -> ByteRange {
        let tier = tiers.last { $0.firstIndex <= index } ?? tiers[0]
        return ByteRange(at: tier.start + Int64(index - tier.firstIndex) * tier.partSize, count: tier.partSize)
    }

    /// The size up to which a file of unknown size needs no layout of its own.
    private static func usualCapacity(_ mostParts: Int, _ capabilities: Capabilities) -> Int64 {
        let (most, overflow) = capabilities.largestPart.multipliedReportingOverflow(by: Int64(mostParts))
        return min(capabilities.largestObject, 5 << 40, overflow ? .max : most / 2)
    }

    private static func tiers(_ count: Int, unit: Int64, _ parts: Int, largest: Int64) -> ([Tier], Int64) {
        var (tiers, index, start, size): ([Tier], Int, Int64, Int64) = ([], 0, 0, unit)
        for tier in 1...count {
            tiers.append(Tier(firstIndex: index, start: start, partSize: size))
            let partsHere = tier == count ? parts - index : parts / count
            let (length, overflow) = size.multipliedReportingOverflow(by: Int64(partsHere))
            let (end, overflow2) = start.addingReportingOverflow(length)
            if overflow || overflow2 { return (tiers, Int64.max) }
            (index, start) = (index + partsHere, end)
            size = min(size > largest / 2 ? largest : size * 2, largest)
        }
        return (tiers, start)
    }
}
