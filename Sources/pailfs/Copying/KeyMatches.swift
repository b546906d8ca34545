import Basics
import ObjectStorage

extension PathPattern {
    /// Whether a text has a character that stands for others.
    static func isPattern(_ text: ByteString) -> Bool { text.bytes.contains { "*?[".utf8.contains($0) } }
}

/// One component of a key, as a URL of the command line has it: a pattern, or the name itself.
///
/// As in a shell, a name that begins with a dot matches only a pattern that does, and a set without its end is plain text.
struct KeyComponent: Sendable {
    private let text: ByteString
    private let pattern: PathPattern?

    init(_ text: ByteString) {
        self.text = text
        pattern = PathPattern.isPattern(text) ? PathPattern(text.description) : nil
    }

    /// The beginning of every name that matches.
    var beginning: ByteString { pattern?.beginning ?? text }

    func matches(_ name: ByteString) -> Bool {
        guard let pattern else { return name == text }
        return pattern.matches(name) && (!name.hasPrefix(".") || beginning.hasPrefix("."))
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
            if component.isEmpty || !PathPattern.isPattern(component) && !(isLast && isExpanded) {
                found = found.map { isLast ? $0 + component : $0 + component + "/" }
                continue
            }
            isExpanded = true
            let isPrefix = !isLast || pattern.hasSuffix("/")
            var next: [ByteString] = []
            for parent in found {
                next += try await children(of: parent, KeyComponent(component), onlyPrefixes: isPrefix)
            }
            found = next
        }
        return found.sorted()
    }

    private func children(
        of parent: ByteString, _ component: KeyComponent, onlyPrefixes: Bool
    ) async throws(ObjectStoreError) -> [ByteString] {
        var request = ListRequest(prefix: parent + component.beginning, delimiter: UInt8(ascii: "/"))
        var progress = ListingProgress()
        var found: [ByteString] = []
        while true {
            let page = try await list(request)
            try progress.take(page)
            let keys = (onlyPrefixes ? [] : page.objects.map(\.key.bytes)) + page.commonPrefixes.map(\.bytes)
            found += keys.filter { key in
                let name = key.dropFirst(parent.count)
                return !name.isEmpty && component.matches(name.hasSuffix("/") ? name.dropLast(1) : name)
            }
            guard let cursor = page.next else { return found }
            request.cursor = cursor
        }
    }
}
