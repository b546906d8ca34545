import Basics

/// Parses the lines of a file of clouds into nodes: blocks by their indentation here, single lines in `YAMLInline`.
struct YAMLReader {
    typealias Node = CloudsFile.Node
    typealias Malformed = CloudsFile.Malformed

    struct Line {
        let number: Int
        var indentation: Int
        var text: Substring
    }

    private let rows: [Substring]
    private var lines: [Line] = []
    private var position = 0
    private var anchors: [String: Node] = [:]
    private var depth = 0
    static let deepest = 64

    init(_ text: String) {
        let text = text.hasPrefix("\u{FEFF}") ? text.dropFirst() : text[...]
        rows = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    }

    mutating func document() throws(Malformed) -> Node {
        for (index, row) in rows.enumerated() {
            let body = row.drop { $0 == " " }
            if body.allSatisfy(\.isWhitespace) || body.hasPrefix("#") || body.hasPrefix("%") { continue }
            if row == "---" || row.hasPrefix("--- ") || row == "..." { continue }
            lines.append(Line(number: index + 1, indentation: row.count - body.count, text: body))
        }
        guard let first = lines.first else { return .mapping([:]) }
        let node: Node
        if first.text.hasPrefix("{") {
            position = 1
            node = try inline(first.text, first.number, parent: -1)
        } else {
            node = try block(first.indentation)
        }
        if position < lines.count { throw misplaced(lines[position]) }
        guard case .mapping = node else {
            throw Malformed(line: first.number, reason: "neither 'name: value' nor a list")
        }
        return node
    }

    private func misplaced(_ line: Line) -> Malformed {
        Malformed(line: line.number, reason: "the indentation matches no line above")
    }

    private static func isItem(_ text: Substring) -> Bool { text == "-" || text.hasPrefix("- ") }

    /// The block that begins at this line, with that indentation.
    private mutating func block(_ indentation: Int) throws(Malformed) -> Node {
        depth += 1
        defer { depth -= 1 }
        guard depth <= Self.deepest else { throw Malformed(line: lines[position].number, reason: "too deep a nesting") }
        if lines[position].text.hasPrefix("\t") {
            throw Malformed(line: lines[position].number, reason: "a tab cannot indent")
        }
        return Self.isItem(lines[position].text) ? try list(indentation) : try mapping(indentation)
    }

    private mutating func list(_ indentation: Int) throws(Malformed) -> Node {
        var items: [Node] = []
        while position < lines.count, lines[position].indentation == indentation, Self.isItem(lines[position].text) {
            let line = lines[position]
            let rest = line.text.dropFirst().drop { $0 == " " }
            if rest.isEmpty || rest.hasPrefix("#") {
                position += 1
                let isBelow = position < lines.count && lines[position].indentation > indentation
                items.append(isBelow ? try block(lines[position].indentation) : .scalar(""))
                continue
            }
            let column = indentation + line.text.count - rest.count
            if Self.isItem(rest) || Self.name(rest) != nil {
                lines[position] = Line(number: line.number, indentation: column, text: rest)
                items.append(try block(column))
            } else {
                position += 1
                items.append(try inline(rest, line.number, parent: indentation))
            }
        }
        if position < lines.count, lines[position].indentation > indentation { throw misplaced(lines[position]) }
        return .list(items)
    }

    private mutating func mapping(_ indentation: Int) throws(Malformed) -> Node {
        var members: [String: Node] = [:]
        while position < lines.count, lines[position].indentation == indentation, !Self.isItem(lines[position].text) {
            let line = lines[position]
            if line.text.hasPrefix("\t") { throw Malformed(line: line.number, reason: "a tab cannot indent") }
            guard let (name, rest) = Self.name(line.text) else {
                throw Malformed(line: line.number, reason: "neither 'name: value' nor a list")
            }
            position += 1
            Self.add(try inline(rest, line.number, parent: indentation), as: name, to: &members)
        }
        if position < lines.count, lines[position].indentation > indentation { throw misplaced(lines[position]) }
        return .mapping(members)
    }

    /// `<<` adds the members of other mappings, unless the mapping has them itself.
    static func add(_ node: Node, as name: String, to members: inout [String: Node]) {
        guard name == "<<" else {
            members[name.replacing("-", with: "_")] = node
            return
        }
        for case .mapping(let more) in node.items.isEmpty ? [node] : node.items {
            members.merge(more) { own, _ in own }
        }
    }

    /// The name at the start of a line and the text after its colon; nil for a line that is no member of a mapping.
    private static func name(_ text: Substring) -> (name: String, rest: Substring)? {
        // A bracket, an alias, an anchor.
        if let first = text.first, "{[*&".contains(first) { return nil }
        var inline = YAMLInline(text, number: 0)
        guard let name = try? inline.scalar(endingAt: .colon), inline.rest.hasPrefix(":") else { return nil }
        let rest = inline.rest.dropFirst()
        guard rest.isEmpty || rest.first?.isWhitespace == true else { return nil }
        return (name, rest.drop(while: \.isWhitespace))
    }

    // MARK: Values

    /// A value that begins after a name or a dash, and continues in the lines that are indented more than `parent`.
    private mutating func inline(_ text: Substring, _ number: Int, parent: Int) throws(Malformed) -> Node {
        var text = text
        if text.hasPrefix("&") {
            let name = text.dropFirst().prefix { !$0.isWhitespace }
            let node = try inline(text.dropFirst(name.count + 1).drop { $0 == " " }, number, parent: parent)
            anchors[String(name)] = node
            return node
        }
        if text.isEmpty || text.hasPrefix("#") {
            guard position < lines.count else { return .scalar("") }
            let next = lines[position]
            if next.indentation > parent { return try block(next.indentation) }
            return next.indentation == parent && Self.isItem(next.text) ? try list(parent) : .scalar("")
        }
        if text.hasPrefix("|") || text.hasPrefix(">") { return .scalar(blockScalar(text, number, parent: parent)) }
        var inline = YAMLInline(text, number: number)
        inline.anchors = anchors
        while true {
            do throws(Malformed) {
                let node = try inline.node(isWithin: false)
                anchors = inline.anchors
                let rest = inline.rest.drop(while: \.isWhitespace)
                guard rest.isEmpty || rest.hasPrefix("#") else {
                    throw Malformed(line: number, reason: "more than one value")
                }
                return node
            } catch {
                // A bracket may be closed on a later line, at any indentation.
                guard inline.isOpen, position < lines.count else { throw error }
                text = "\(text)\n\(lines[position].text)"[...]
                position += 1
                inline = YAMLInline(text, number: number)
                inline.anchors = anchors
            }
        }
    }

    /// The rows below a `|` or `>`, unchanged or folded into one line.
    private mutating func blockScalar(_ head: Substring, _ number: Int, parent: Int) -> String {
        var own: [Substring] = []
        for row in rows[number...] {
            let indentation = row.prefix { $0 == " " }.count
            guard indentation == row.count || indentation > parent else { break }
            own.append(row)
        }
        while position < lines.count, lines[position].number <= number + own.count { position += 1 }
        let margin = own.filter { !$0.allSatisfy(\.isWhitespace) }.map { $0.prefix { $0 == " " }.count }.min() ?? 0
        while let last = own.last, last.allSatisfy(\.isWhitespace) { own.removeLast() }
        let text = own.map { String($0.dropFirst(margin)) }.joined(separator: head.hasPrefix(">") ? " " : "\n")
        return head.dropFirst().hasPrefix("-") || text.isEmpty ? text : text + "\n"
    }
}
