import Basics
import FileSystem
import Metadata
import ObjectStorage
import TestSupport
import Testing

/// One act of a program, of somebody else on the bucket, or of the administrator.
enum Act: CustomStringConvertible {
    case store(String, [UInt8])
    case overwrite(String, at: Int, [UInt8])
    case append(String, [UInt8])
    case resize(String, Int)
    case makeDirectory(String)
    case removeDirectory(String)
    case unlink(String)
    case rename(String, String)
    case symlink(String, String)
    case changeMode(String, UInt16)
    case remotePut(String, [UInt8])
    case remount

    var description: String {
        switch self {
        case .store(let path, let bytes): "store \(path) \(bytes.count)"
        case .overwrite(let path, let offset, let bytes): "overwrite \(path) at \(offset) \(bytes.count)"
        case .append(let path, let bytes): "append \(path) \(bytes.count)"
        case .resize(let path, let size): "resize \(path) \(size)"
        case .makeDirectory(let path): "mkdir \(path)"
        case .removeDirectory(let path): "rmdir \(path)"
        case .unlink(let path): "unlink \(path)"
        case .rename(let old, let new): "rename \(old) \(new)"
        case .symlink(let path, let target): "symlink \(path) -> \(target)"
        case .changeMode(let path, let mode): "chmod \(path) \(String(mode, radix: 8))"
        case .remotePut(let path, let bytes): "somebody else puts \(path) \(bytes.count)"
        case .remount: "remount"
        }
    }

    static func random(_ generator: inout SeededGenerator, known: [String]) -> Act {
        func path() -> String {
            if !known.isEmpty, Int.random(in: 0..<3, using: &generator) > 0 {
                return known[Int.random(in: 0..<known.count, using: &generator)]
            }
            let depth = Int.random(in: 1...3, using: &generator)
            let names = ["a", "b", "a-b", "ab", "x y", "ü"]
            return (0..<depth).map { _ in names[Int.random(in: 0..<names.count, using: &generator)] }.joined(
                separator: "/")
        }
        func bytes() -> [UInt8] { generator.bytes(Int.random(in: 0...5000, using: &generator)) }
        switch Int.random(in: 0..<26, using: &generator) {
        case 0..<5: return .store(path(), bytes())
        case 5..<8: return .overwrite(path(), at: Int.random(in: 0...6000, using: &generator), bytes())
        case 8..<10: return .append(path(), bytes())
        case 10..<12: return .resize(path(), Int.random(in: 0...8000, using: &generator))
        case 12..<15: return .makeDirectory(path())
        case 15: return .removeDirectory(path())
        case 16..<18: return .unlink(path())
        case 18..<21: return .rename(path(), path())
        case 21: return .symlink(path(), "target\(Int.random(in: 0..<9, using: &generator))")
        case 22: return .changeMode(path(), UInt16.random(in: 0..<0o777, using: &generator))
        case 23: return .remotePut(path(), bytes())
        default: return .remount
        }
    }
}

/// Runs acts on a mounted tree and on the reference, and compares the error of each and the whole tree after it.
struct Model {
    typealias Kind = FileSystemError.Kind
    var reference = ReferenceTree()
    let tree: MountedTree

    /// What POSIX says of the act, done to the reference.
    mutating func expect(_ act: Act) -> Kind? {
        switch act {
        case .store(let path, let bytes):
            return edit(path, create: true) { _ in bytes }
        case .overwrite(let path, let offset, let bytes):
            return edit(path, create: false) { old in
                var new = old
                if bytes.isEmpty { return new }
                if new.count < offset + bytes.count {
                    new += Array(repeating: 0, count: offset + bytes.count - new.count)
                }
                new.replaceSubrange(offset..<(offset + bytes.count), with: bytes)
                return new
            }
        case .append(let path, let bytes): return edit(path, create: true) { $0 + bytes }
        case .resize(let path, let size):
            return edit(path, create: false) { old in
                Array(old.prefix(size)) + Array(repeating: 0, count: max(0, size - old.count))
            }
        case .makeDirectory(let path):
            if let error = reference.parentError(path) { return error }
            if reference.node(path) != nil { return .exists }
            reference.set(path, .directory([:]))
        case .removeDirectory(let path):
            if let error = reference.parentError(path) { return error }
            switch reference.node(path) {
            case nil: return .notFound
            case .file, .link: return .notDirectory
            case .directory(let entries):
                if !entries.isEmpty { return .notEmpty }
                reference.set(path, nil)
            }
        case .unlink(let path):
            if let error = reference.parentError(path) { return error }
            switch reference.node(path) {
            case nil: return .notFound
            case .directory: return .isDirectory
            case .file, .link: reference.set(path, nil)
            }
        case .rename(let old, let new): return rename(old, new)
        case .symlink(let path, let target):
            if let error = reference.parentError(path) { return error }
            if reference.node(path) != nil { return .exists }
            reference.set(path, .link(target))
        case .changeMode(let path, let mode):
            if let error = reference.parentError(path) { return error }
            switch reference.node(path) {
            case nil: return .notFound
            case .file(let bytes, _): reference.set(path, .file(bytes, mode: mode))
            case .directory, .link: break
            }
        case .remotePut(let path, let bytes):
            // Others use the bucket as we show it: no object below a file, none where a directory is.
            guard reference.parentError(path) == nil else { return nil }
            switch reference.node(path) {
            case .directory, .link: return nil
            case nil, .file: reference.set(path, .file(bytes, mode: 0o644))
            }
        case .remount: break
        }
        return nil
    }

    private mutating func edit(_ path: String, create: Bool, _ change: ([UInt8]) -> [UInt8]) -> Kind? {
        if let error = reference.parentError(path) { return error }
        switch reference.node(path) {
        case .directory: return .isDirectory
        case .link: return .invalid
        case nil:
            guard create else { return .notFound }
            reference.set(path, .file(change([]), mode: 0o640))
        case .file(let bytes, let mode): reference.set(path, .file(change(bytes), mode: mode))
        }
        return nil
    }

    private mutating func rename(_ old: String, _ new: String) -> Kind? {
        if let error = reference.parentError(old) ?? reference.parentError(new) { return error }
        guard let node = reference.node(old) else { return .notFound }
        if old == new { return nil }
        let target = reference.node(new)
        if case .directory = node {
            if (new + "/").hasPrefix(old + "/") { return .invalid }
            switch target {
            case nil: break
            case .directory(let entries): if !entries.isEmpty { return .notEmpty }
            case .file, .link: return .notDirectory
            }
        } else if case .directory = target {
            return .isDirectory
        }
        reference.set(old, nil)
        reference.set(new, node)
        return nil
    }

    func perform(_ act: Act) async throws(MountedTree.Failure) {
        switch act {
        case .store(let path, let bytes): try await requireFile(path).store(path, bytes)
        case .overwrite(let path, let offset, let bytes):
            let file = try await requireFile(path).open(path, OpenFlags(reads: true, writes: true))
            try await tree.write(file, bytes, at: Int64(offset))
            try await tree.close(file)
        case .append(let path, let bytes):
            let file = try await requireFile(path).open(path, OpenFlags(reads: false, writes: true), create: true)
            try await tree.append(file, bytes)
            try await tree.close(file)
        case .resize(let path, let size): try await requireFile(path).change(path) { $0.size = Int64(size) }
        case .makeDirectory(let path): try await tree.makeDirectory(path)
        case .removeDirectory(let path): try await tree.removeDirectory(path)
        case .unlink(let path): try await tree.unlink(path)
        case .rename(let old, let new): try await tree.rename(old, to: new)
        case .symlink(let path, let target): try await tree.symlink(path, target)
        case .changeMode(let path, let mode):
            if try await tree.find(path).kind == .file { try await tree.change(path) { $0.mode = mode } }
        case .remotePut(let path, let bytes):
            guard reference.parentError(path) == nil, case .file(bytes, _) = reference.node(path) else { return }
            // Removals that wait for others leave within a second.
            tree.time.advance(by: .seconds(1))
            _ = await tree.system.store(below: .root)
            tree.store.setObject(ObjectKey(path), bytes)
            tree.time.advance(by: .seconds(61))
        case .remount:
            do { try await tree.remount() } catch {
                throw MountedTree.Failure(kind: .inputOutput, reason: "remount: \(error)")
            }
        }
    }

    /// The kernel never opens a symlink; the reference calls that invalid.
    private func requireFile(_ path: String) async throws(MountedTree.Failure) -> MountedTree {
        if let status = try? await tree.find(path), status.kind == .symlink {
            throw MountedTree.Failure(kind: .invalid, reason: "symlink")
        }
        if let status = try? await tree.find(path), status.kind == .directory {
            throw MountedTree.Failure(kind: .isDirectory, reason: path)
        }
        return tree
    }

    /// Everything below `path` as the mount shows it.
    func seen(_ path: String = "") async throws(MountedTree.Failure) -> [String: ReferenceTree.Node] {
        var entries: [String: ReferenceTree.Node] = [:]
        for name in try await tree.names(path) {
            let inner = path.isEmpty ? name : path + "/" + name
            let status = try await tree.find(inner)
            switch status.kind {
            case .directory: entries[name] = .directory(try await seen(inner))
            case .symlink: entries[name] = .link(try await tree.readLink(inner))
            case .file:
                let bytes = try await tree.load(inner)
                if Int64(bytes.count) != (try await tree.find(inner)).size {
                    throw MountedTree.Failure(kind: .inputOutput, reason: "\(inner): size differs from content")
                }
                entries[name] = .file(bytes, mode: status.mode)
            }
        }
        return entries
    }
}

/// What a store can do: the mount must look the same on all of them.
enum StoreKind: String, CaseIterable, CustomTestStringConvertible {
    /// Conditions, copies of parts.
    case complete
    /// Nothing is checked at a write but whether the object is new.
    case unconditional
    /// Names change in one request, headers in place; neither conditions nor copies of parts.
    case renaming
    /// Listings show what was there half a minute ago.
    case lagging

    var testDescription: String { rawValue }

    var capabilities: Capabilities {
        var capabilities = Capabilities()
        capabilities.listPage = 3
        switch self {
        case .complete: break
        case .unconditional: (capabilities.putIfMatch, capabilities.copyCondition) = (false, false)
        case .renaming:
            (capabilities.putIfMatch, capabilities.putIfAbsent) = (false, false)
            (capabilities.copyCondition, capabilities.partCopy) = (false, false)
            (capabilities.metadataUpdate, capabilities.move) = (.inPlace, true)
        case .lagging: (capabilities.putIfMatch, capabilities.listingLag) = (false, .seconds(30))
        }
        return capabilities
    }
}

@Suite struct ModelTests {
    @Test(.rule("visible.own"), arguments: 1...12, StoreKind.allCases)
    func randomActsLookAsOnALocalDisk(seed: Int, kind: StoreKind) async throws {
        var generator = SeededGenerator(seed: UInt64(seed))
        let capabilities = kind.capabilities
        var model = Model(tree: try MountedTree(capabilities: capabilities))
        var history: [String] = []
        for step in 0..<150 {
            let act = Act.random(&generator, known: model.reference.paths)
            history.append(act.description)
            let before = model.reference
            let expected = model.expect(act)
            var seen: FileSystemError.Kind?
            var reason = ""
            do { try await model.perform(act) } catch { (seen, reason) = (error.kind, error.reason) }
            let trail = history.suffix(30).joined(separator: "; ")
            try #require(seen == expected, "\(kind) seed \(seed) step \(step): \(act): \(reason)\n\(trail)")
            if expected != nil { model.reference = before }
            let tree: [String: ReferenceTree.Node]
            do { tree = try await model.seen() } catch {
                Issue.record("\(kind) seed \(seed) step \(step): \(act): \(error)\n\(trail)")
                return
            }
            try #require(tree == model.reference.root, "\(kind) seed \(seed) step \(step): \(act)\n\(trail)")
        }
        #expect(model.tree.store.uploadsInProgress.isEmpty)
    }
}
