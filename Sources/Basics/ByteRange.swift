/// A half-open range of byte offsets. Offsets are `Int64` as in `off_t`.
package typealias ByteRange = Range<Int64>

extension ByteRange {
    /// `count` bytes from `offset`.
    package init(at offset: Int64, count: Int64) { self = offset..<(offset + count) }

    /// How many bytes; `Range.count` is an `Int` and offsets are not.
    package var length: Int64 { upperBound - lowerBound }

    /// This range widened outward to multiples of `unit`, then cut to `0..<limit`.
    package func aligned(to unit: Int64, limit: Int64) -> ByteRange {
        let lower = lowerBound / unit * unit
        let (raised, overflow) = upperBound.addingReportingOverflow(unit - 1)
        let upper = overflow ? limit : Swift.min(raised / unit * unit, limit)
        return lower..<Swift.max(lower, upper)
    }
}
