import Basics
import Glibc
import Journaling
import Settings

/// A directory in which an earlier mount kept both its state and its cache, from before the two were separate.
///
/// It is taken over before the mount has a journal: on one disk by renaming the directory, after which the cache is moved to its
/// own place; across disks by a copy of the state that is flushed, and gets its name, before anything is removed.
/// After a crash: the journal is in one of the two directories, with all files that it names, or in both with the same content,
/// which the file `former` records; the next mount continues.
/// Locks: the directory's own, which earlier versions of this program use, too.
struct FormerDirectory: Sendable {
    let path: String
    private let place: DirectoryPair

    /// Files that must not be lost, the journal last: a command that finds the journal finds all.
    private static let state = ["staging", "changes", "journal.db-made", "journal.db-wal", "journal.db"]
    /// Files that can be fetched again, in groups that belong together; a group is whole when its last file exists.
    private static let caches = [
        ["meta.db-damaged", "meta.db-wal", "meta.db"], ["blocks", "blocks.db-damaged", "blocks.db-wal", "blocks.db"],
    ]

    /// The former directories of the request's mount that hold a journal.
    static func all(of request: MountRequest, _ place: DirectoryPair) throws(CommandError) -> [FormerDirectory] {
        var paths: [String] = []
        if !place.isOne { paths.append(place.cache) }
        if request.settings.cacheDirectory == nil, let parent = CacheLocation.former(environment: request.environment) {
            paths.append("\(parent)/\(try DirectoryPair.name(of: request))")
        }
        return paths.enumerated().filter { number, path in
            path != place.state && !paths[..<number].contains(path) && isOurs(path)
                && Journal.exists(at: path + "/journal.db")
        }.map { FormerDirectory(path: $0.element, place: place) }
    }

    /// With `sudo`, HOME can be another user's.
    private static func isOurs(_ path: String) -> Bool {
        guard let status = try? LocalFileStatus(of: path) else { return false }
        return status.kind == .directory && status.owner == LocalFileStatus.ourUser
    }

    /// Moves all files, unless the mount has a journal of its own.
    /// Requires: the caller has the directory's lock.
    func takeOver() throws(JournalingError) {
        // Another mount has taken the directory over already.
        guard Journal.exists(at: path + "/journal.db") else { return }
        do throws(FileError) {
            guard !Journal.exists(at: place.journal) else {
                if isCopied { return try removeRest() }
                return warn()
            }
            let parent = Directory.parent(of: place.state)
            try Directory.create(parent, lasting: true)
            // These files are of a mount that failed before it had a journal.
            for name in ["lock", "cache"] { try File.remove("\(place.state)/\(name)") }
            do throws(FileError) { try File.rename(path, to: place.state) } catch {
                guard error.errno == EXDEV else { throw error }
                try copyState()
                return try removeRest()
            }
            try Directory.sync(parent)
            try? Directory.sync(Directory.parent(of: path))
        } catch { throw .file(error) }
        Self.moveCaches(from: place.state, to: place)
    }

    // MARK: The cache

    /// After an interrupted move: moves the parts of the cache that are in the state directory.
    static func sort(_ place: DirectoryPair) { if !place.isOne { moveCaches(from: place.state, to: place) } }

    /// Moves the caches; deletes those that exist at the target already, and those on another disk.
    private static func moveCaches(from source: String, to place: DirectoryPair) {
        for group in caches {
            let isWhole = group.last.map { access("\(place.cache)/\($0)", F_OK) == 0 } ?? true
            for name in group where access("\(source)/\(name)", F_OK) == 0 {
                try? Directory.create(place.cache)
                if isWhole || Glibc.rename("\(source)/\(name)", "\(place.cache)/\(name)") != 0 {
                    Directory.removeTree("\(source)/\(name)")
                }
            }
        }
    }

    // MARK: Across disks

    private var mark: String { place.state + "/former" }

    /// Whether the mount's journal is a copy of the one in this directory.
    private var isCopied: Bool {
        (try? File(mark).read(atMost: 8192)).map { String(decoding: $0, as: UTF8.self) } == path
    }

    private func copyState() throws(FileError) {
        let copy = place.state + ".new"
        Directory.removeTree(copy)
        try Directory.create(copy)
        for name in Self.state { try Self.copy("\(path)/\(name)", to: "\(copy)/\(name)") }
        if !Journal.isCopy(at: path + "/journal.db") { try Journal.claim(copy + "/journal.db") }
        try File.writeAtomically(Array(path.utf8), to: copy + "/former")
        try Directory.sync(copy)
        try File.rename(copy, to: place.state)
        try Directory.sync(Directory.parent(of: place.state))
    }

    private static func copy(_ source: String, to target: String) throws(FileError) {
        guard let status = try LocalFileStatus(of: source) else { return }
        switch status.kind {
        case .directory:
            try Directory.create(target)
            for name in try Directory.names(in: source) { try copy("\(source)/\(name)", to: "\(target)/\(name)") }
            try Directory.sync(target)
        case .file: try copy(File(source), status, to: File(target, .readWrite, create: .exclusive))
        case .symbolicLink, .other: break
        }
    }

    /// Copies a file with its holes and times, which matter for staged files.
    private static func copy(_ source: File, _ status: LocalFileStatus, to target: File) throws(FileError) {
        let step: Int64 = 64 << 10
        var position: Int64 = 0
        while position < status.size {
            let bytes = try source.read(position..<min(status.size, position + step))
            if bytes.contains(where: { $0 != 0 }) { try target.write(bytes, at: position) }
            position += step
        }
        try target.truncate(to: status.size)
        try target.setTimes(accessed: status.accessed, modified: status.modified)
        try target.sync()
    }

    private func removeRest() throws(FileError) {
        for name in Self.state.reversed() { Directory.removeTree("\(path)/\(name)") }
        try Directory.sync(path)
        try File.remove(mark)
        guard path != place.cache else { return }
        Self.moveCaches(from: path, to: place)
        Directory.removeTree(path)
    }

    // MARK: Two journals

    /// Warns of files here that are not stored: an earlier version of this program was used meanwhile.
    private func warn() {
        guard let journal = try? Journal(path: path + "/journal.db") else { return }
        defer { journal.close() }
        guard let contents = try? journal.contents(), !contents.files.isEmpty || !contents.jobs.isEmpty else { return }
        Entry.warn(
            "\(path) has files of an earlier mount that are not stored; mount once with "
                + "\"-o state-dir=\(Directory.parent(of: path))\" to store them")
    }
}
