import Basics

/// The part of YAML that clouds.yaml is written in: mappings by indentation, and scalars, plain or quoted, on one line.
///
/// Lists are read over; what needs more of YAML (anchors, block scalars, flow mappings) is refused with its line, rather
/// than read as something else.
package struct CloudsFile: Sendable {
    /// Why a file cannot be read, in one sentence without its name.
    package struct Malformed: Error, Sendable, CustomStringConvertible {
        package let line: Int
        package let reason: String
        package var description: String { "line \(line): \(reason)" }
    }

    indirect enum Node: Sendable, Hashable {
        case scalar(String)
        case mapping([String: Node])

        subscript(_ name: String) -> Node? {
            guard case .mapping(let members) = self else { return nil }
            return members[name]
        }

        var text: String? {
            guard case .scalar(let text) = self, !text.isEmpty else { return nil }
            return text
        }

        /// `other`'s members over this node's, through all levels.
        func merged(with other: Node) -> Node {
            guard case .mapping(var members) = self, case .mapping(let more) = other else { return other }
            for (name, node) in more { members[name] = members[name]?.merged(with: node) ?? node }
            return .mapping(members)
        }
    }

    private(set) var root = Node.mapping([:])

    package init(parsing text: String) throws(Malformed) {
        var lines: [Line] = []
        for (number, text) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            if let line = try Line(String(text), number: number + 1) { lines.append(line) }
        }
        var position = 0
        root = try Self.mapping(lines, &position, indentation: lines.first?.indentation ?? 0)
        if position < lines.count {
            throw Malformed(line: lines[position].number, reason: "the indentation matches no line above")
        }
    }

    /// The settings under `clouds.<name>`, with those of a file of secrets over them.
    func cloud(_ name: String, with secrets: CloudsFile?) -> Node? {
        let own = root["clouds"]?[name]
        guard let more = secrets?.root["clouds"]?[name] else { return own }
        return own?.merged(with: more) ?? more
    }

    /// The one cloud's name, when there is one only.
    var onlyCloud: String? {
        guard case .mapping(let clouds)? = root["clouds"], clouds.count == 1 else { return nil }
        return clouds.keys.first
    }

    private struct Line {
        let number: Int
        let indentation: Int
        /// nil on a line of a list.
        var name: String?
        var value: String

        /// nil for what says nothing.
        init?(_ text: String, number: Int) throws(Malformed) {
            self.number = number
            let body = text.drop { $0 == " " }
            indentation = text.count - body.count
            if body.isEmpty || body.hasPrefix("#") || body == "---" || body == "..." { return nil }
            if body.hasPrefix("\t") { throw Malformed(line: number, reason: "a tab cannot indent") }
            if body == "-" || body.hasPrefix("- ") {
                (name, value) = (nil, "")
                return
            }
            var rest = Substring(body)
            let name = try Line.take(&rest, endsAtColon: true, number)
            guard rest.hasPrefix(":"), rest.count == 1 || rest.dropFirst().hasPrefix(" ") else {
                throw Malformed(line: number, reason: "neither 'name: value' nor a list")
            }
            rest = rest.dropFirst().drop { $0 == " " }
            self.name = name
            value = try Line.take(&rest, endsAtColon: false, number)
            rest = rest.drop { $0 == " " }
            guard rest.isEmpty || rest.hasPrefix("#") else {
                throw Malformed(line: number, reason: "more than one value")
            }
        }

        /// One scalar off the front.
        private static func take(
            _ rest: inout Substring, endsAtColon: Bool, _ number: Int
        ) throws(Malformed) -> String {
            guard let first = rest.first else { return "" }
            if first == "\"" || first == "'" { return try quoted(&rest, first, number) }
            if !endsAtColon, "|>&*!{[@`%".contains(first) {
                if rest == "{}" || rest == "[]" {
                    rest = ""
                    return ""
                }
                throw Malformed(line: number, reason: "a value that starts with \(first) must be quoted")
            }
            var text = ""
            while let character = rest.first {
                if endsAtColon, character == ":", rest.count == 1 || rest.dropFirst().hasPrefix(" ") { break }
                if character == "#", text.isEmpty || text.hasSuffix(" ") { break }
                text.append(character)
                rest.removeFirst()
            }
            while text.last?.isWhitespace == true { text.removeLast() }
            return text == "~" || text == "null" ? "" : text
        }

        private static func quoted(
            _ rest: inout Substring, _ mark: Character, _ number: Int
        ) throws(Malformed) -> String {
            var text = ""
            rest.removeFirst()
            while let character = rest.popFirst() {
                if character == mark {
                    guard mark == "'", rest.first == mark else { return text }
                    rest.removeFirst()
                    text.append(mark)
                } else if mark == "\"", character == "\\" {
                    switch rest.popFirst() {
                    case "n": text.append("\n")
                    case "t": text.append("\t")
                    case let other? where "\"\\/ ".contains(other): text.append(other)
                    default: throw Malformed(line: number, reason: "an unknown escape sequence")
                    }
                } else {
                    text.append(character)
                }
            }
            throw Malformed(line: number, reason: "a quote without its end")
        }
    }

    private static func mapping(
        _ lines: [Line], _ position: inout Int, indentation: Int
    ) throws(Malformed) -> Node {
        var members: [String: Node] = [:]
        while position < lines.count, lines[position].indentation == indentation, let name = lines[position].name {
            let line = lines[position]
            position += 1
            var node = Node.scalar(line.value)
            if line.value.isEmpty, position < lines.count {
                let next = lines[position]
                if next.name == nil, next.indentation >= indentation {
                    // A list, which nothing here asks for, with whatever is below its items.
                    while position < lines.count,
                        lines[position].indentation > indentation
                            || lines[position].name == nil && lines[position].indentation == indentation
                    { position += 1 }
                } else if next.indentation > indentation {
                    node = try mapping(lines, &position, indentation: next.indentation)
                }
            }
            members[name] = node
        }
        if position < lines.count, lines[position].indentation > indentation {
            throw Malformed(line: lines[position].number, reason: "the indentation matches no line above")
        }
        return .mapping(members)
    }
}
