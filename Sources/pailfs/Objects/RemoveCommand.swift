import ArgumentParser
import Basics
import ObjectStorage

/// Deletes objects, in batches where the store takes them.
struct RemoveCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rm", abstract: "Deletes an object, or everything below a prefix.",
        discussion: """
            The mount that holds the path shows the change at once; other mounts of the bucket show it within their ttl.
            """)

    @OptionGroup var object: ObjectArguments
    @Flag(name: [.short, .customLong("recursive")], help: "Delete every key that starts with the path and a slash.")
    var recursive = false
    @Option(help: ArgumentHelp("Delete this version, or delete marker, for good.", valueName: "ID"))
    var version: String?

    func validate() throws {
        guard version == nil || !recursive else {
            throw ValidationError("--version names a version of one object; leave out -r")
        }
    }

    mutating func run() throws {
        if let version { return try remove(version: version) }
        // As rm(1): a symbolic link is deleted, not its target.
        let (session, key) = try object.object(whole: recursive, following: false, changing: true)
        defer { session.target?.noteChange() }
        guard recursive || session.target?.isDirectory != true else {
            throw CommandError("\(object.url) is a directory; use -r to delete it with all keys below")
        }
        guard recursive, session.target?.isDirectory != false else {
            return try session.answer { store async throws(ObjectStoreError) in
                _ = try await store.head(key, condition: nil)
                try await store.delete(key, ifMatch: nil)
            }
        }
        let prefix = key.bytes.hasSuffix("/") ? key.bytes : key.bytes + "/"
        var failed: [ObjectStoreError] = []
        var count = 0
        // A page is deleted before the next is listed; the listing continues after a key, which need not exist any more.
        var request = ListRequest(prefix: prefix)
        while true {
            let page = try session.answer { [request] store async throws(ObjectStoreError) in
                try await store.list(request)
            }
            let keys = page.objects.map(\.key)
            let errors = try remove(keys, session)
            failed += errors
            count += keys.count - errors.count
            guard page.next != nil, let last = keys.last else { break }
            request = ListRequest(prefix: prefix, startAfter: last.bytes)
        }
        for error in failed {
            Entry.say("pailfs: not deleted: \(Output.text(error.key?.bytes ?? "")): \(error.message)")
        }
        if let first = failed.first {
            throw CommandError("\(failed.count) objects are left below \(object.url): \(first.message)")
        }
        guard count > 0 else { throw CommandError("\(object.url) has nothing below it; check its name") }
        print("\(count) objects deleted")
    }

    private func remove(version: String) throws {
        let (session, key) = try object.object(new: true, following: false, changing: true)
        _ = try ObjectVersions(session, object.url).version(version, of: key)
        defer { session.target?.noteChange() }
        try session.answer { store async throws(ObjectStoreError) in try await store.delete(key, version: version) }
    }

    /// Deletes the keys. Returns an error for each that could not be deleted.
    private func remove(
        _ keys: [ObjectKey], _ session: ObjectStoreSession
    ) throws(CommandError) -> [ObjectStoreError] {
        let batch = max(1, session.capabilities.deleteBatch)
        var failed: [ObjectStoreError] = []
        for start in stride(from: 0, to: keys.count, by: batch) {
            let some = Array(keys[start..<min(keys.count, start + batch)])
            failed += try session.answer { store async throws(ObjectStoreError) -> [ObjectStoreError] in
                if some.count > 1 { return try await store.deleteMany(some) }
                for key in some { try await store.delete(key, ifMatch: nil) }
                return []
            }
        }
        return failed
    }
}
