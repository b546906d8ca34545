import Basics

/// What pages of other origins may ask of a bucket.
package struct CORSRule: Hashable, Sendable {
    package var id = ""
    /// Each may have one `*` for any text.
    package var origins: [String] = []
    package var methods: [String] = []
    /// Of requests; each may have one `*` for any text.
    package var headers: [String] = []
    /// Of answers, which the page may see.
    package var exposed: [String] = []
    /// In seconds; how long a browser may remember the answer to its preflight.
    package var maxAge: Int?

    package init() {}

    /// Whether a page of `origin` may send such a request.
    package func allows(origin: String, method: String, headers asked: [String] = []) -> Bool {
        origins.contains { Self.fits(origin, $0) } && methods.contains(method)
            && asked.allSatisfy { name in headers.contains { Self.fits(name.lowercased(), $0.lowercased()) } }
    }

    private static func fits(_ text: String, _ pattern: String) -> Bool {
        guard let star = pattern.firstIndex(of: "*") else { return text == pattern }
        let (start, end) = (pattern[..<star], pattern[pattern.index(after: star)...])
        return text.count >= start.count + end.count && text.hasPrefix(start) && text.hasSuffix(end)
    }
}

extension RecordWriter {
    mutating func line(cors rules: [CORSRule]) {
        for rule in rules {
            line("cors", rule.id, rule.maxAge.map(String.init) ?? "")
            for origin in rule.origins { line("cors-origin", origin) }
            for method in rule.methods { line("cors-method", method) }
            for header in rule.headers { line("cors-header", header) }
            for header in rule.exposed { line("cors-exposed", header) }
        }
    }
}

extension [CORSRule] {
    /// Takes a line if it is one of a rule's.
    mutating func take(_ line: RecordReader.Line) {
        let value = line.text(1)
        if line.text(0) == "cors" {
            var rule = CORSRule()
            (rule.id, rule.maxAge) = (value, Int(line.text(2)))
            return append(rule)
        }
        guard let index = indices.last else { return }
        switch line.text(0) {
        case "cors-origin": self[index].origins.append(value)
        case "cors-method": self[index].methods.append(value)
        case "cors-header": self[index].headers.append(value)
        case "cors-exposed": self[index].exposed.append(value)
        default: break
        }
    }
}
