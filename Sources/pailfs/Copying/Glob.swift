import Basics
import ObjectStorage

/// A pattern for one component of a key, as a shell has them: `*` is any text, `?` one character, `[a-z]` one of some and `[!a-z]`
/// one of the others. A name that begins with a dot matches only a pattern that does.
struct Glob: Sendable, Equatable {
    private enum Piece: Sendable, Equatable {
        case any
        case one
        case exactly(Unicode.Scalar)
        case set([ClosedRange<Unicode.Scalar>], isNegated: Bool)

        func matches(_ scalar: Unicode.Scalar) -> Bool {
            switch self {
            case .any: false
            case .one: true
            case .exactly(let other): scalar == other
            case .set(let ranges, let isNegated): ranges.contains { $0.contains(scalar) } != isNegated
            }
        }
    }

    private let pieces: [Piece]

    /// The text before the first character with a meaning.
    let literal: String

    init(_ pattern: String) {
        var pieces: [Piece] = []
        var rest = Array(pattern.unicodeScalars)[...]
        while let first = rest.popFirst() {
            switch first {
            case "*": if pieces.last != .any { pieces.append(.any) }
            case "?": pieces.append(.one)
            case "[":
                if let (set, after) = Self.set(rest) {
                    pieces.append(set)
                    rest = after
                } else {
                    pieces.append(.exactly(first))
                }
            default: pieces.append(.exactly(first))
            }
        }
        self.pieces = pieces
        var literal = ""
        for piece in pieces {
            guard case .exactly(let scalar) = piece else { break }
            literal.unicodeScalars.append(scalar)
        }
        self.literal = literal
    }

    /// Whether a text has a character with a meaning.
    static func isPattern(_ text: ByteString) -> Bool { text.bytes.contains { "*?[".utf8.contains($0) } }

    /// A set, after its opening bracket; nil where it is not closed. A closing bracket in first place belongs to the set.
    private static func set(_ text: ArraySlice<Unicode.Scalar>) -> (Piece, ArraySlice<Unicode.Scalar>)? {
        var rest = text
        let isNegated = rest.first == "!" || rest.first == "^"
        if isNegated { rest = rest.dropFirst() }
        var ranges: [ClosedRange<Unicode.Scalar>] = []
        while let first = rest.popFirst() {
            if first == "]", !ranges.isEmpty { return (.set(ranges, isNegated: isNegated), rest) }
            let after = rest.dropFirst()
            if rest.first == "-", let last = after.first, last != "]" {
                if first <= last { ranges.append(first...last) }
                rest = after.dropFirst()
            } else {
                ranges.append(first...first)
            }
        }
        return nil
    }

    func matches(_ name: String) -> Bool {
        let text = Array(name.unicodeScalars)
        if text.first == ".", pieces.first != .exactly(".") { return false }
        // The newest star, and where the text behind it began: on a mismatch the star takes one character more.
        var (index, piece): (Int, Int) = (0, 0)
        var star: (piece: Int, index: Int)?
        while index < text.count {
            if piece < pieces.count, pieces[piece] == .any {
                star = (piece, index)
                piece += 1
            } else if piece < pieces.count, pieces[piece].matches(text[index]) {
                (index, piece) = (index + 1, piece + 1)
            } else if let last = star {
                star = (last.piece, last.index + 1)
                (index, piece) = (last.index + 1, last.piece + 1)
            } else {
                return false
            }
        }
        return pieces[piece...].allSatisfy { $0 == .any }
    }
}

extension ObjectStore {
    /// The keys that a pattern matches, component by component, in order; those that end in a slash are prefixes of other keys. A
    /// pattern that ends in a slash matches prefixes only.
    func keys(matching pattern: ByteString) async throws(ObjectStoreError) -> [ByteString] {
        var found: [ByteString] = [""]
        let components = pattern.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
            .map { ByteString($0) }
        var isExpanded = false
        for (index, component) in components.enumerated() {
            let isLast = index == components.count - 1
            // Behind a pattern, a last name is looked for like one.
            if component.isEmpty || !Glob.isPattern(component) && !(isLast && isExpanded) {
                found = found.map { isLast ? $0 + component : $0 + component + "/" }
                continue
            }
            isExpanded = true
            let isPrefix = !isLast || pattern.hasSuffix("/")
            var next: [ByteString] = []
            for parent in found { next += try await children(of: parent, component, onlyPrefixes: isPrefix) }
            found = next
        }
        return found.sorted()
    }

    private func children(
        of parent: ByteString, _ component: ByteString, onlyPrefixes: Bool
    ) async throws(ObjectStoreError) -> [ByteString] {
        let glob = Glob(component.description)
        var request = ListRequest(prefix: parent + ByteString(glob.literal), delimiter: UInt8(ascii: "/"))
        var progress = ListingProgress()
        var found: [ByteString] = []
        while true {
            let page = try await list(request)
            try progress.take(page)
            let keys = (onlyPrefixes ? [] : page.objects.map(\.key.bytes)) + page.commonPrefixes.map(\.bytes)
            found += keys.filter { key in
                let name = key.dropFirst(parent.count)
                return !name.isEmpty && glob.matches((name.hasSuffix("/") ? name.dropLast(1) : name).description)
            }
            guard let cursor = page.next else { return found }
            request.cursor = cursor
        }
    }
}
