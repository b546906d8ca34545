import Basics
import FuseBridge
import Glibc
import ObjectStorage

/// The files below a local directory, in the order of their names.
///
/// Symbolic links below it are refused, or followed. A link that leads back to a directory above it is refused then, and so is a
/// mount of pailfs: its bucket may be the one that gets the copies.
struct LocalWalk: CopyWalk {
    private struct Directory: Sendable {
        let path: String
        let name: ByteString
        /// The directory and those above it.
        let chain: [FileIdentity]
    }

    private enum Pending: Sendable {
        case directory(Directory)
        /// Names in a directory, of which those before `next` are done.
        case names([ByteString], next: Int, Directory)
        case found(WalkEntry)
    }

    private let followsLinks: Bool
    private let isMount: @Sendable (String) -> Bool
    private var pending: [Pending] = []

    /// `beginning` is what the names begin with; `isMount` says whether a directory is in a mount of pailfs.
    init(
        _ top: String, beginning: ByteString, followsLinks: Bool,
        isMount: @escaping @Sendable (String) -> Bool = { CopyEnd.isInMount($0) }
    ) throws(ObjectStoreError) {
        (self.followsLinks, self.isMount) = (followsLinks, isMount)
        do throws(FileError) {
            guard let status = try LocalFileStatus(of: File.resolved(top) ?? top) else {
                throw FileError(errno: ENOENT, operation: "copy", path: top)
            }
            let directory = Directory(path: top, name: beginning, chain: [status.identity])
            if status.kind == .directory {
                pending = [.directory(directory)]
            } else {
                let item = CopyItem(source: .file(top), name: beginning, size: status.size, followsLink: true)
                pending = [.found(.item(item))]
            }
        } catch { throw ObjectStoreError(error, .put) }
    }

    mutating func next() -> WalkEntry? {
        while let last = pending.popLast() {
            switch last {
            case .found(let found): return found
            case .names(let names, let next, let directory):
                guard next < names.count else { continue }
                pending.append(.names(names, next: next + 1, directory))
                pending.append(look(at: names[next], in: directory))
            case .directory(let directory):
                do throws(FileError) { try list(directory) } catch {
                    return .failed(ByteString(directory.path), "\(error)")
                }
            }
        }
        return nil
    }

    private mutating func list(_ directory: Directory) throws(FileError) {
        let names = try Basics.Directory.names(in: directory.path).sorted()
        guard names.isEmpty else { return pending.append(.names(names, next: 0, directory)) }
        let name = directory.name.isEmpty ? "" : directory.name + "/"
        pending.append(.found(.item(CopyItem(source: .emptyDirectory(directory.path), name: name))))
    }

    private func look(at name: ByteString, in directory: Directory) -> Pending {
        let top = directory.path.hasSuffix("/") ? String(directory.path.dropLast()) : directory.path
        let path = "\(top)/\(name)"
        func refused(_ reason: String) -> Pending { .found(.refused(ByteString(top) + "/" + name, reason)) }
        guard CopyPlan.isUTF8(name) else { return refused("the name is not UTF-8") }
        do throws(FileError) {
            guard var status = try LocalFileStatus(of: path) else { return refused("it was removed meanwhile") }
            if status.kind == .symbolicLink {
                guard followsLinks else { return refused("it is a symbolic link; -L copies the file it points to") }
                guard let target = File.resolved(path), let found = try LocalFileStatus(of: target) else {
                    return refused("it is a symbolic link to a file that does not exist")
                }
                status = found
            }
            let below = CopyPlan.path(directory.name, name)
            switch status.kind {
            case .file:
                let item = CopyItem(
                    source: .file(path), name: below, size: status.size, followsLink: followsLinks)
                return .found(.item(item))
            case .directory:
                guard !directory.chain.contains(status.identity) else {
                    return refused("it is a symbolic link to a directory above it")
                }
                if status.identity.device != directory.chain.last?.device, isMount(path) {
                    return refused("it is a mount of pailfs; copy its files with a command of their own")
                }
                return .directory(Directory(path: path, name: below, chain: directory.chain + [status.identity]))
            case .symbolicLink, .other: return refused("it is neither a file nor a directory")
            }
        } catch { return .found(.failed(ByteString(top) + "/" + name, "\(error)")) }
    }
}
