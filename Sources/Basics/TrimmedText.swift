extension StringProtocol {
    /// Without white space at either end.
    package var trimmed: String {
        let value = drop(while: \.isWhitespace)
        let end = value.lastIndex { !$0.isWhitespace }.map { value.index(after: $0) } ?? value.startIndex
        return String(value[..<end])
    }
}
