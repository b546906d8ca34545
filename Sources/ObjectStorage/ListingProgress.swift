/// Detects a listing that continues without progress, which a broken or malicious store can send for ever.
///
/// A value: the reader of a listing passes it each page. Stores may repeat the end of a page, and send some pages without
/// entries; no store does so for long.
package struct ListingProgress: Sendable {
    /// Most successive pages without an entry past those before.
    private static let mostRepeated = 16
    /// Most successive pages without entries: a store may scan that many deleted names.
    private static let mostEmpty = 10_000

    private var last: ObjectKey?
    private var repeated = 0
    private var empty = 0

    package init() {}

    /// Takes the next page. Throws `.malformedAnswer` when the listing makes no progress.
    package mutating func take(_ page: ListingPage) throws(ObjectStoreError) {
        guard page.next != nil else { return }
        let ends = [page.objects.last?.key, page.commonPrefixes.last].compactMap(\.self)
        guard let end = ends.max(by: { $0.bytes < $1.bytes }) else {
            empty += 1
            return try check(empty <= Self.mostEmpty)
        }
        if let last, end.bytes <= last.bytes {
            repeated += 1
            return try check(repeated <= Self.mostRepeated)
        }
        (last, repeated, empty) = (end, 0, 0)
    }

    private func check(_ isFine: Bool) throws(ObjectStoreError) {
        guard !isFine else { return }
        throw ObjectStoreError(
            .malformedAnswer, .list, code: "MalformedAnswer",
            message: "the listing does not advance: the store returns the same page again and again")
    }
}
