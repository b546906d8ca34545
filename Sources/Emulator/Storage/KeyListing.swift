package import Basics

/// What a listing asks of a bucket, in no dialect's words.
package struct ListingRequest: Sendable {
    package var prefix: ByteString
    /// Empty for none.
    package var delimiter: ByteString
    /// Only what sorts after this: a key, or a common prefix with everything below it.
    package var after: ByteString
    /// Most keys and common prefixes together.
    package var limit: Int

    package init(prefix: ByteString = "", delimiter: ByteString = "", after: ByteString = "", limit: Int) {
        (self.prefix, self.delimiter, self.after, self.limit) = (prefix, delimiter, after, limit)
    }

    /// The key up to and including the first delimiter behind the prefix; nil without one.
    func commonPrefix(of key: ByteString) -> ByteString? {
        guard !delimiter.isEmpty, key.hasPrefix(prefix), let end = key.end(of: delimiter, from: prefix.count) else {
            return nil
        }
        return ByteString(key.bytes[..<end])
    }
}

/// One page of a listing.
package struct ListingResult<Value: Sendable>: Sendable {
    package enum Item: Sendable {
        case entry(ByteString, Value)
        case commonPrefix(ByteString)

        /// The key or the common prefix.
        package var name: ByteString {
            switch self {
            case .entry(let key, _): key
            case .commonPrefix(let prefix): prefix
            }
        }
    }

    package var items: [Item] = []
    /// Where the next page starts, as its `after`; nil when this was the last.
    package var next: ByteString?
}

extension SortedIndex where Key == ByteString {
    /// One page; costs a binary search for the start and one for each common prefix, and a step for each key.
    package func list(_ request: ListingRequest) -> ListingResult<Value> {
        var result = ListingResult<Value>()
        guard request.limit > 0 else { return result }
        var position = firstPosition { $0 <= request.after || $0 < request.prefix }
        // A page that ended with a common prefix goes on behind everything below it.
        if let group = request.commonPrefix(of: request.after), group == request.after {
            position = firstPosition { $0 < request.prefix || $0 <= group || $0.hasPrefix(group) }
        }
        while let entry = entry(at: position), entry.key.hasPrefix(request.prefix) {
            if result.items.count == request.limit {
                result.next = result.items.last?.name
                break
            }
            if let group = request.commonPrefix(of: entry.key) {
                result.items.append(.commonPrefix(group))
                position = firstPosition { $0 < group || $0.hasPrefix(group) }
            } else {
                result.items.append(.entry(entry.key, entry.value))
                position = self.position(after: position)
            }
        }
        return result
    }

}

extension ByteString {
    /// The index behind the first `part` at or after `start`.
    fileprivate func end(of part: ByteString, from start: Int) -> Int? {
        guard let first = part.first, count >= part.count else { return nil }
        var index = start
        while index + part.count <= count {
            if bytes[index] == first, bytes[index..<(index + part.count)].elementsEqual(part.bytes) {
                return index + part.count
            }
            index += 1
        }
        return nil
    }
}
