/// A pattern for names or paths: `*` stands for any text without a slash, `**` for any text, `?` for one character but a slash,
/// `[a-z]` for one character of a set, `[!a-z]` for one that is not in it; a backslash takes the next character as it is.
package struct PathPattern: Sendable, Hashable {
    private enum Token: Sendable, Hashable {
        case bytes([UInt8])
        case character
        case set([ClosedRange<UInt32>], isNegated: Bool)
        case text
        case path
    }

    /// The text of the pattern.
    package let text: String
    private let tokens: [Token]

    /// nil for a set without an end, and for a backslash at the end.
    package init?(_ text: String) {
        self.text = text
        var tokens: [Token] = []
        var rest = Substring(text)
        while let letter = rest.popFirst() {
            switch letter {
            case "*":
                if rest.first == "*" {
                    rest.removeFirst()
                    tokens.append(.path)
                } else {
                    tokens.append(.text)
                }
            case "?": tokens.append(.character)
            case "[":
                guard let set = Self.set(&rest) else { return nil }
                tokens.append(set)
            case "\\":
                guard let next = rest.popFirst() else { return nil }
                tokens.append(.bytes(Array(next.utf8)))
            default: tokens.append(.bytes(Array(letter.utf8)))
            }
        }
        self.tokens = tokens
    }

    /// The bytes that every name begins with.
    package var beginning: ByteString {
        var bytes: [UInt8] = []
        for token in tokens {
            guard case .bytes(let more) = token else { break }
            bytes += more
        }
        return ByteString(bytes)
    }

    private static func set(_ rest: inout Substring) -> Token? {
        let isNegated = rest.first == "!" || rest.first == "^"
        if isNegated { rest.removeFirst() }
        var ranges: [ClosedRange<UInt32>] = []
        var scalars = rest.unicodeScalars
        var isFirst = true
        while let scalar = scalars.popFirst() {
            if scalar == "]", !isFirst {
                rest = Substring(scalars)
                return .set(ranges, isNegated: isNegated)
            }
            isFirst = false
            var last = scalar
            if scalars.first == "-", let end = scalars.dropFirst().first, end != "]" {
                scalars.removeFirst(2)
                last = end
            }
            guard scalar <= last else { return nil }
            ranges.append(scalar.value...last.value)
        }
        return nil
    }

    /// Whether the pattern stands for all of `name`, whose bytes need not be UTF-8: such a byte counts as a character.
    package func matches(_ name: ByteString) -> Bool {
        let bytes = name.bytes
        // The places in the name that the tokens so far can lead to.
        var reached = [Bool](repeating: false, count: bytes.count + 1)
        reached[0] = true
        for token in tokens {
            var next = [Bool](repeating: false, count: bytes.count + 1)
            for place in reached.indices where reached[place] { Self.step(token, bytes, place, &next) }
            reached = next
        }
        return reached[bytes.count]
    }

    private static func step(_ token: Token, _ bytes: [UInt8], _ place: Int, _ next: inout [Bool]) {
        switch token {
        case .bytes(let wanted):
            if bytes[place...].starts(with: wanted) { next[place + wanted.count] = true }
        case .text, .path:
            var end = place
            next[end] = true
            while end < bytes.count, token == .path || bytes[end] != UInt8(ascii: "/") {
                end += 1
                next[end] = true
            }
        case .character, .set:
            guard place < bytes.count, bytes[place] != UInt8(ascii: "/") else { return }
            let (scalar, length) = character(bytes[place...])
            if case .set(let ranges, let isNegated) = token,
                ranges.contains(where: { $0.contains(scalar) }) == isNegated
            {
                return
            }
            next[place + length] = true
        }
    }

    /// The first character of a text, or its first byte where that begins none.
    private static func character(_ bytes: ArraySlice<UInt8>) -> (scalar: UInt32, length: Int) {
        for length in 1...4 where length <= bytes.count {
            guard let text = String(validating: bytes.prefix(length), as: UTF8.self),
                let scalar = text.unicodeScalars.first
            else { continue }
            return (scalar.value, length)
        }
        return (UInt32(bytes.first ?? 0), 1)
    }
}
