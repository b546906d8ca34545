/// Notices a listing that goes on and gets nowhere, which a broken store, or one that means harm, can send for ever.
///
/// A value: whoever follows the pages of one listing shows it each. Stores may repeat the end of a page, and send some
/// pages without anything on them; no store does so for long.
package struct ListingProgress: Sendable {
    /// Pages in a row that bring nothing past those before.
    private static let mostRepeated = 16
    /// Pages in a row that bring nothing: a store may look through that many deleted names.
    private static let mostEmpty = 10_000

    private var last: ObjectKey?
    private var repeated = 0
    private var empty = 0

    package init() {}

    /// Takes the next page. Throws `.malformedAnswer` when there is no end in sight.
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
