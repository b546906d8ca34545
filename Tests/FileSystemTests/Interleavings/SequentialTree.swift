import FileSystem
import Metadata

/// A tree whose steps happen one at a time, as on a local disk: the truth that an interleaving is compared with.
struct SequentialTree: Hashable {
    enum Node: Hashable {
        case file([UInt8])
        case directory([String: Int], isRemoved: Bool)
    }

    /// What a program has looked up and opened, as indices of `nodes`.
    private struct View: Hashable {
        var first: Int?
        var second: Int?
        var found: Int?
        var handle: Int?
    }

    private static let root = 0
    private var nodes: [Node] = [.directory([:], isRemoved: false)]
    private var views: [View]

    init(programs: Int) { views = Array(repeating: View(), count: programs) }

    /// The names and what they lead to, below the top directory.
    func tree(_ directory: Int = root) -> [String: ReferenceTree.Node] {
        guard case .directory(let entries, _) = nodes[directory] else { return [:] }
        return entries.mapValues { index in
            switch nodes[index] {
            case .file(let bytes): .file(bytes, mode: 0)
            case .directory: .directory(tree(index))
            }
        }
    }

    /// Does a step of a program; the answer is what the program sees on a local disk.
    mutating func perform(_ step: Step, of program: Int) -> Step.Answer {
        do throws(Refusal) { return try attempt(step, program) } catch { return .failed(error.kind) }
    }

    private struct Refusal: Error { let kind: FileSystemError.Kind }

    private mutating func attempt(_ step: Step, _ program: Int) throws(Refusal) -> Step.Answer {
        switch step {
        case .enter(let slot, let name):
            var found: Int? = Self.root
            if let name { found = try entries(of: Self.root)[name] }
            if slot == .first { views[program].first = found } else { views[program].second = found }
            return .found(found.map(kind))
        case .look(let name):
            let found = try entries(of: views[program].first)[name]
            views[program].found = found
            return .found(found.map(kind))
        case .open(let truncating):
            guard let file = views[program].found else { throw Refusal(kind: .notFound) }
            return open(file, truncating, program)
        case .create(let name):
            let entries = try entries(of: views[program].first)
            if let found = entries[name] {
                guard case .file = nodes[found] else { throw Refusal(kind: .exists) }
                return open(found, false, program)
            }
            add(.file([]), name, to: views[program].first)
            return open(nodes.count - 1, false, program)
        case .write(let bytes, let offset): return try change(program) { $0.write(bytes, at: offset ?? $0.count) }
        case .resize(let size): return try change(program) { $0.resize(size) }
        case .read:
            guard let handle = views[program].handle, case .file(let bytes) = nodes[handle] else {
                throw Refusal(kind: .badHandle)
            }
            return .bytes(bytes)
        case .close:
            views[program].handle = nil
            return .done
        case .unlink(let name):
            guard let found = try entries(of: views[program].first)[name] else { throw Refusal(kind: .notFound) }
            guard case .file = nodes[found] else { throw Refusal(kind: .isDirectory) }
            remove(name, from: views[program].first)
            return .done
        case .makeDirectory(let name):
            if try entries(of: views[program].first)[name] != nil { throw Refusal(kind: .exists) }
            add(.directory([:], isRemoved: false), name, to: views[program].first)
            return .done
        case .removeDirectory(let name):
            guard let found = try entries(of: views[program].first)[name] else { throw Refusal(kind: .notFound) }
            try requireEmpty(found)
            remove(name, from: views[program].first)
            nodes[found] = .directory([:], isRemoved: true)
            return .done
        case .rename(let name, let newName):
            return try rename(name, views[program].first, newName, views[program].second)
        }
    }

    private mutating func rename(
        _ name: String, _ directory: Int?, _ newName: String, _ newDirectory: Int?
    ) throws(Refusal) -> Step.Answer {
        guard let found = try entries(of: directory)[name] else { throw Refusal(kind: .notFound) }
        let target = try entries(of: newDirectory)[newName]
        if target == found { return .done }
        if found == newDirectory { throw Refusal(kind: .invalid) }
        if let target {
            switch (kind(found), kind(target)) {
            case (.directory, .directory): try requireEmpty(target)
            case (.directory, _): throw Refusal(kind: .notDirectory)
            case (_, .directory): throw Refusal(kind: .isDirectory)
            default: break
            }
            if kind(target) == .directory { nodes[target] = .directory([:], isRemoved: true) }
        }
        remove(name, from: directory)
        link(found, newName, in: newDirectory)
        return .done
    }

    private func kind(_ index: Int) -> EntryKind {
        if case .file = nodes[index] { .file } else { .directory }
    }

    private func entries(of directory: Int?) throws(Refusal) -> [String: Int] {
        guard let directory, case .directory(let entries, false) = nodes[directory] else {
            throw Refusal(kind: .notFound)
        }
        return entries
    }

    private func requireEmpty(_ directory: Int) throws(Refusal) {
        guard case .directory(let entries, _) = nodes[directory] else { throw Refusal(kind: .notDirectory) }
        if !entries.isEmpty { throw Refusal(kind: .notEmpty) }
    }

    private mutating func open(_ file: Int, _ truncating: Bool, _ program: Int) -> Step.Answer {
        views[program].handle = file
        if truncating { nodes[file] = .file([]) }
        return .done
    }

    private mutating func change(_ program: Int, _ edit: (inout [UInt8]) -> Void) throws(Refusal) -> Step.Answer {
        guard let handle = views[program].handle, case .file(var bytes) = nodes[handle] else {
            throw Refusal(kind: .badHandle)
        }
        edit(&bytes)
        nodes[handle] = .file(bytes)
        return .done
    }

    private mutating func add(_ node: Node, _ name: String, to directory: Int?) {
        nodes.append(node)
        link(nodes.count - 1, name, in: directory)
    }

    private mutating func link(_ node: Int, _ name: String, in directory: Int?) {
        guard let directory, case .directory(var entries, let isRemoved) = nodes[directory] else { return }
        entries[name] = node
        nodes[directory] = .directory(entries, isRemoved: isRemoved)
    }

    private mutating func remove(_ name: String, from directory: Int?) {
        guard let directory, case .directory(var entries, let isRemoved) = nodes[directory] else { return }
        entries[name] = nil
        nodes[directory] = .directory(entries, isRemoved: isRemoved)
    }
}

extension [UInt8] {
    fileprivate mutating func write(_ bytes: [UInt8], at offset: Int) {
        if bytes.isEmpty { return }
        if count < offset + bytes.count { resize(offset + bytes.count) }
        replaceSubrange(offset..<(offset + bytes.count), with: bytes)
    }

    fileprivate mutating func resize(_ size: Int) {
        if size < count { removeLast(count - size) } else { self += Array(repeating: 0, count: size - count) }
    }
}
