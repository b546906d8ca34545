import Basics

/// Facts worth remembering for seconds and not worth a row: which part of a directory a running or aborted listing has
/// covered, and names that the store just answered to be missing.
///
/// A value inside the cache's mutex; bounded; lost at unmount.
struct Recollection {
    /// The parts of directories that were listed, and when.
    struct Listed {
        fileprivate var stretches: [Int64: [Stretch]] = [:]

        /// When the newest listing, other than `except`, that covers all of `first...last` began. A time after `latest` is
        /// from before the clock was set back.
        func at(
            _ directory: Int64, _ first: ByteString, through last: ByteString, except listing: UInt64? = nil,
            latest: Int64
        ) -> Int64? {
            guard let known = stretches[directory] else { return nil }
            return known.lazy
                .filter { $0.listing != listing && $0.checkedAt <= latest && $0.covers(first, through: last) }
                .map(\.checkedAt).max()
        }
    }

    /// Components from `lower` to before `upper` (nil: the end) were listed by a request begun at `checkedAt`.
    fileprivate struct Stretch {
        let listing: UInt64
        let lower: ByteString
        var upper: ByteString?
        let checkedAt: Int64

        func covers(_ first: ByteString, through last: ByteString) -> Bool {
            guard lower <= first else { return false }
            guard let upper else { return true }
            return last < upper
        }
    }

    private struct Name: Hashable {
        let parent: Int64
        let name: ByteString
    }

    private static let mostDirectories = 1024
    private static let mostStretches = 4
    private static let mostNames = 4096

    private(set) var listed = Listed()
    private var missing: [Name: Int64] = [:]

    mutating func recordListed(
        _ directory: Int64, listing: UInt64, from lower: ByteString, to upper: ByteString?, at checkedAt: Int64
    ) {
        if listed.stretches.count >= Self.mostDirectories, listed.stretches[directory] == nil {
            listed.stretches.removeAll()
        }
        var known = listed.stretches[directory] ?? []
        known.removeAll { $0.listing == listing }
        if known.count >= Self.mostStretches { known.removeFirst() }
        known.append(Stretch(listing: listing, lower: lower, upper: upper, checkedAt: checkedAt))
        listed.stretches[directory] = known
    }

    mutating func forgetListings(of directory: Int64) { listed.stretches[directory] = nil }

    mutating func recordMissing(_ name: ByteString, in parent: Int64, at checkedAt: Int64) {
        if missing.count >= Self.mostNames { missing.removeAll() }
        missing[Name(parent: parent, name: name)] = checkedAt
    }

    func missingSince(_ name: ByteString, in parent: Int64) -> Int64? { missing[Name(parent: parent, name: name)] }

    mutating func forgetMissing(_ name: ByteString, in parent: Int64) {
        missing[Name(parent: parent, name: name)] = nil
    }
}
