import ArgumentParser
import Basics
import ObjectStorage

/// Lists the versions of an object, or of everything below a prefix.
struct VersionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "versions", abstract: "Lists the versions of an object, or of everything below a prefix.",
        discussion: """
            Newest first: time, size, storage class, whether it is the latest, version ID and key. A delete marker is the \
            latest version of an object that was deleted.
            """)

    @OptionGroup var object: ObjectArguments
    @Flag(help: "Print each version as a JSON object on a line of its own.") var json = false

    mutating func run() throws {
        let (session, path) = try object.location.open(object.url, new: true, following: false)
        let versions = try ObjectVersions(session, object.url)
        let isDirectory = path.isEmpty || path.hasSuffix("/") || session.target?.isDirectory == true
        guard isDirectory else {
            for version in try versions.all(of: ObjectKey(path)) { try show(version) }
            return
        }
        var isEmpty = true
        try versions.pages(below: path.isEmpty || path.hasSuffix("/") ? path : path + "/") {
            (page) throws(CommandError) in
            for version in page { try show(version) }
            isEmpty = isEmpty && page.isEmpty
        }
        if isEmpty { throw CommandError("\(object.url) has no versions below it; check its name") }
    }

    private func show(_ version: StoredVersion) throws(CommandError) {
        let line = VersionLine(version)
        guard json else { return Output.line(naming: ByteString(line.text) + version.key.bytes) }
        do { try Output.jsonLine(line) } catch { throw CommandError("\(error)") }
    }
}

/// Makes an earlier version of an object the latest, by a copy at the store.
struct RestoreVersionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore-version",
        abstract: "Makes an earlier version of an object the latest; the store copies it.",
        discussion: """
            The versions after it are kept; while versioning is suspended, a copy that would replace one of them is refused. \
            "pailfs versions" lists the IDs.
            """)

    @OptionGroup var object: ObjectArguments
    @Argument(help: "The ID of the version.") var version: String

    mutating func run() throws {
        let (session, key) = try object.object(new: true, following: false, changing: true)
        let versions = try ObjectVersions(session, object.url)
        let history = try versions.all(of: key)
        let found = try versions.version(version, in: history)
        guard !found.isDeleteMarker else {
            throw CommandError(
                "the version \(version) of \(object.url) is a delete marker, which has no content; "
                    + "\"pailfs rm \(object.url)\" deletes the object again")
        }
        try versions.requireNoneReplaced(in: history, byCopying: version)
        defer { session.target?.noteChange() }
        try session.answer(inTime: false) { [version] store async throws(ObjectStoreError) in
            _ = try await store.restoreVersion(key, version)
        }
    }
}

/// Brings deleted objects back.
struct UndeleteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "undelete", abstract: "Brings back a deleted object, or all those below a prefix.",
        discussion: """
            Removes the delete markers after the last version; where that is not allowed, the store copies that version.
            """)

    @OptionGroup var object: ObjectArguments
    @Flag(name: [.short, .customLong("recursive")], help: "Every key that starts with the path and a slash.")
    var recursive = false

    mutating func run() throws {
        let (session, path) = try object.location.open(
            object.url, whole: recursive, new: true, following: false, changing: true)
        let versions = try ObjectVersions(session, object.url)
        let below = path.isEmpty || path.hasSuffix("/") ? path : path + "/"
        defer { session.target?.noteChange(of: recursive && !below.isEmpty ? ObjectKey(below) : nil) }
        guard recursive else {
            guard !path.isEmpty else { throw CommandError("\(object.url) names no object; write scheme://bucket/key") }
            let history = try versions.all(of: ObjectKey(path))
            guard history[0].isDeleteMarker else {
                throw CommandError("\(object.url) exists; there is nothing to undelete")
            }
            guard try undelete(history, of: versions) else {
                throw CommandError("\(object.url) has delete markers only; there is no version to bring back")
            }
            return
        }
        var (count, failures) = (0, 0)
        // The versions of one key can be on two pages.
        var history: [StoredVersion] = []
        func finish() {
            defer { history = [] }
            guard history.first?.isDeleteMarker == true else { return }
            do throws(CommandError) { if try undelete(history, of: versions) { count += 1 } } catch {
                failures += 1
                Entry.say("pailfs: not undeleted: \(Output.text(history[0].key.bytes)): \(error.message)")
            }
        }
        try versions.pages(below: below) { (page) throws(CommandError) in
            for version in page {
                if version.key != history.first?.key { finish() }
                history.append(version)
            }
        }
        finish()
        if failures > 0 { throw CommandError("\(failures) objects below \(object.url) are still deleted") }
        guard count > 0 else { throw CommandError("\(object.url) has nothing below it to undelete; check its name") }
        print("\(count) objects undeleted")
    }

    /// Makes the last version of a deleted object its latest; false when it has none.
    private func undelete(_ history: [StoredVersion], of versions: ObjectVersions) throws(CommandError) -> Bool {
        let markers = history.prefix { $0.isDeleteMarker }
        guard let last = history.dropFirst(markers.count).first else { return false }
        let isAllowed = try versions.session.answer(inTime: false) { store async throws(ObjectStoreError) in
            do throws(ObjectStoreError) {
                for marker in markers { try await store.delete(marker.key, version: marker.id) }
            } catch {
                guard error.kind == .accessDenied else { throw error }
                return false
            }
            return true
        }
        if isAllowed { return true }
        try versions.requireNoneReplaced(in: history, byCopying: last.id)
        try versions.session.answer(inTime: false) { store async throws(ObjectStoreError) in
            _ = try await store.restoreVersion(last.key, last.id)
        }
        return true
    }
}
