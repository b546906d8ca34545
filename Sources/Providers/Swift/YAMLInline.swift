import Basics

/// YAML on one line: scalars, and mappings and lists in brackets, which may also contain line breaks.
struct YAMLInline {
    typealias Node = CloudsFile.Node
    typealias Malformed = CloudsFile.Malformed

    enum End {
        /// A colon, before white space or at the end, after a name.
        case colon
        /// A comment or the end of the line.
        case line
        /// The same, or a separator in brackets.
        case bracket
    }

    private(set) var rest: Substring
    private let number: Int
    var anchors: [String: Node] = [:]
    /// A bracket is not closed yet.
    private(set) var isOpen = false
    private var depth = 0

    init(_ text: Substring, number: Int) { (rest, self.number) = (text, number) }

    private func malformed(_ reason: String) -> Malformed { Malformed(line: number, reason: reason) }

    private mutating func skipSpace() {
        while let first = rest.first, first.isWhitespace || first == "#" {
            rest = first == "#" ? rest.drop { !$0.isNewline } : rest.dropFirst()
        }
    }

    /// Parses a node. If `isWithin` brackets, a scalar ends at a separator.
    mutating func node(isWithin: Bool) throws(Malformed) -> Node {
        switch rest.first {
        case "{": return try mapping()
        case "[": return try list()
        case "*":
            let name = rest.dropFirst().prefix { !$0.isWhitespace && !",]}".contains($0) }
            rest = rest.dropFirst(name.count + 1)
            guard let node = anchors[String(name)] else { throw malformed("no anchor above is called \(name)") }
            return node
        case "&":
            let name = rest.dropFirst().prefix { !$0.isWhitespace && !",]}".contains($0) }
            rest = rest.dropFirst(name.count + 1).drop(while: \.isWhitespace)
            let node = try node(isWithin: isWithin)
            anchors[String(name)] = node
            return node
        case let first? where "!%@`".contains(first):
            throw malformed("a value that starts with \(first) must be quoted")
        default: return .scalar(try scalar(endingAt: isWithin ? .bracket : .line))
        }
    }

    private mutating func enter() throws(Malformed) {
        rest.removeFirst()
        depth += 1
        isOpen = true
        guard depth <= YAMLReader.deepest else {
            isOpen = false
            throw malformed("too deep a nesting")
        }
    }

    private mutating func leave() {
        rest.removeFirst()
        depth -= 1
        isOpen = depth > 0
    }

    private mutating func mapping() throws(Malformed) -> Node {
        try enter()
        var members: [String: Node] = [:]
        while true {
            skipSpace()
            guard let first = rest.first else { throw malformed("a bracket without its end") }
            if first == "}" {
                leave()
                return .mapping(members)
            }
            let isQuoted = first == "\"" || first == "'"
            let name = try scalar(endingAt: isQuoted ? .bracket : .colon)
            skipSpace()
            var value = Node.scalar("")
            if rest.first == ":" {
                rest.removeFirst()
                skipSpace()
                if let next = rest.first, next != ",", next != "}" { value = try node(isWithin: true) }
            }
            YAMLReader.add(value, as: name, to: &members)
            try separate("}")
        }
    }

    private mutating func list() throws(Malformed) -> Node {
        try enter()
        var items: [Node] = []
        while true {
            skipSpace()
            guard let first = rest.first else { throw malformed("a bracket without its end") }
            if first == "]" {
                leave()
                return .list(items)
            }
            items.append(try node(isWithin: true))
            try separate("]")
        }
    }

    /// Consumes the comma between two members.
    private mutating func separate(_ end: Character) throws(Malformed) {
        skipSpace()
        guard let next = rest.first else { throw malformed("a bracket without its end") }
        if next == "," {
            rest.removeFirst()
        } else if next != end {
            isOpen = false
            throw malformed("members of a bracket without a comma between them")
        }
    }

    /// Consumes one scalar.
    mutating func scalar(endingAt end: End) throws(Malformed) -> String {
        guard let first = rest.first else { return "" }
        if first == "\"" || first == "'" { return try quoted(first) }
        var text = ""
        while let character = rest.first {
            if character == ":" {
                let next = rest.dropFirst().first
                let isMark = next == nil || next?.isWhitespace == true || depth > 0 && ",]}".contains(next ?? " ")
                if isMark, end == .line { throw malformed("a second name on one line") }
                if isMark { break }
            }
            if depth > 0, ",]}{[".contains(character) || character.isNewline { break }
            if character == "#", text.isEmpty || text.last?.isWhitespace == true { break }
            text.append(character)
            rest.removeFirst()
        }
        while text.last?.isWhitespace == true { text.removeLast() }
        return text == "~" || text == "null" ? "" : text
    }

    private mutating func quoted(_ mark: Character) throws(Malformed) -> String {
        var text = ""
        rest.removeFirst()
        while let character = rest.popFirst() {
            if character == mark {
                guard mark == "'", rest.first == mark else { return text }
                rest.removeFirst()
                text.append(mark)
            } else if mark == "\"", character == "\\" {
                text.append(try escaped())
            } else if character.isNewline {
                break
            } else {
                text.append(character)
            }
        }
        isOpen = false
        throw malformed("a quote without its end")
    }

    private mutating func escaped() throws(Malformed) -> Character {
        switch rest.popFirst() {
        case "n": return "\n"
        case "t": return "\t"
        case "r": return "\r"
        case let other? where "\"\\/ ".contains(other): return other
        case let kind? where kind == "u" || kind == "x":
            let digits = rest.prefix(kind == "u" ? 4 : 2)
            if let code = UInt32(digits, radix: 16), let scalar = Unicode.Scalar(code) {
                rest = rest.dropFirst(digits.count)
                return Character(scalar)
            }
        default: break
        }
        isOpen = false
        throw malformed("an unknown escape sequence")
    }
}
