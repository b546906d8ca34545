import FileSystem

/// What a POSIX tree holds after the same acts: the truth that the model test compares with. Symlinks are never followed.
struct ReferenceTree {
    indirect enum Node: Sendable, Equatable {
        case file([UInt8], mode: UInt16)
        case link(String)
        case directory([String: Node])
    }

    var root: [String: Node] = [:]

    static func parts(_ path: String) -> [String] { path.split(separator: "/").map(String.init) }

    func node(_ path: String) -> Node? {
        var node = Node.directory(root)
        for name in Self.parts(path) {
            guard case .directory(let entries) = node, let next = entries[name] else { return nil }
            node = next
        }
        return node
    }

    /// Replaces or (with nil) removes what is at `path`; its parent must exist.
    mutating func set(_ path: String, _ node: Node?) {
        func replaced(_ entries: [String: Node], _ parts: ArraySlice<String>) -> [String: Node] {
            var entries = entries
            guard let name = parts.first else { return entries }
            if parts.count == 1 {
                entries[name] = node
            } else if case .directory(let below) = entries[name] {
                entries[name] = .directory(replaced(below, parts.dropFirst()))
            }
            return entries
        }
        root = replaced(root, Self.parts(path)[...])
    }

    func parentError(_ path: String) -> FileSystemError.Kind? {
        let parts = Self.parts(path).dropLast()
        for length in 0...parts.count {
            switch node(parts.prefix(length).joined(separator: "/")) {
            case nil: return .notFound
            case .directory: continue
            case .file, .link: return .notDirectory
            }
        }
        return nil
    }

    var paths: [String] {
        func below(_ entries: [String: Node], _ prefix: String) -> [String] {
            entries.flatMap { name, node -> [String] in
                guard case .directory(let inner) = node else { return [prefix + name] }
                return [prefix + name] + below(inner, prefix + name + "/")
            }
        }
        return below(root, "").sorted()
    }
}
