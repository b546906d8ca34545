import Basics
import Metadata
import ObjectStorage

/// Gates that make other calls wait while a directory is renamed. The rename copies the objects that it has listed: an object
/// stored meanwhile would be missing at the new key, and one deleted meanwhile would come back.
///
/// Locks: `namespace` for a call that stores a file's bytes at its key; after it `names`, for a call that makes, moves or removes
/// names, changes headers, or begins to change a file. Calls elsewhere in the mount continue.
extension BucketFileSystem {
    /// Runs `act` while no other call makes, moves or removes one of these names. `act` looks the names up itself.
    ///
    /// The kernel excludes two such calls at one name, except when a program was killed: its call continues in pailfs, and the
    /// kernel sends the next one.
    ///
    /// Locks: none but the line for local space.
    /// Throws: EINTR if the caller was killed while the call waited.
    func claiming<Value: Sendable>(
        _ places: [Place], _ act: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        var held: [Place] = []
        defer { for (number, place) in held.enumerated() { nameClaims.end(place, as: .name(number)) } }
        // Every call claims its names in the same order.
        for place in Set(places).sorted(by: { ($0.parent, $0.name) < ($1.parent, $1.name) }) {
            try await nameClaims.begin(place, as: .name(held.count))
            held.append(place)
        }
        metadata.awaitForgetting()
        // The caller was killed while the call waited: the name may lead to another file than the caller has meant.
        if CurrentCall.caller?.isGone == true { throw .interrupted }
        return try await act()
    }

    /// Runs `act`, which makes a name, with the claim and the gate that this needs.
    func making<Value: Sendable>(
        _ place: Place, _ act: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        try await claiming([place]) { () async throws(FileSystemError) in try await changingNames([place], act) }
    }

    /// Runs `change`, which makes, moves or removes these names, while no directory above them is renamed.
    ///
    /// Locks: the claims on the names.
    func changingNames<Value: Sendable>(
        _ places: [Place], _ change: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        let pass = try await enter(names) { keys(of: places) }
        defer { names.leave(pass) }
        return try await change()
    }

    /// Runs `act`, which removes a directory, while no other call makes, moves or removes a name in it.
    ///
    /// Locks: the claim on the directory's name.
    func removing<Value: Sendable>(
        _ directory: Entry, _ act: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        while true {
            let prefix = try key(of: directory.ino).bytes
            let pass: KeyGate.Pass
            do { pass = try await names.enter(alone: [prefix]) } catch { throw .interrupted }
            defer { names.leave(pass) }
            if try key(of: directory.ino).bytes == prefix { return try await act() }
        }
    }

    /// Runs `change`, which changes the headers of an inode's object.
    func changingHeaders<Value: Sendable>(
        of ino: InodeNumber, _ change: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        let pass = try await enterNames(of: [ino])
        defer { names.leave(pass) }
        return try await doubting(ino, change)
    }

    /// Enters `namespace` for a file.
    func enterNamespace(of ino: InodeNumber) async throws(FileSystemError) -> KeyGate.Pass {
        try await enter(namespace) { keys(of: [ino]) }
    }

    /// Enters `names` to begin a change of files.
    func enterNames(of inodes: [InodeNumber]) async throws(FileSystemError) -> KeyGate.Pass {
        try await enter(names) { keys(of: inodes) }
    }

    /// Waits until a rename or commit of this file in this process has finished: readers can follow it then.
    ///
    /// Locks: none.
    func waitForMove(of ino: InodeNumber, _ file: ActiveFile?) async throws(FileSystemError) {
        names.leave(try await enterNames(of: [ino]))
        guard let file else { return }
        do { try await file.writing.enter() } catch { throw .interrupted }
        file.writing.leave()
    }

    /// Runs `act`, the rename of a directory, while no other call changes anything below these prefixes.
    func alone(
        below prefixes: () throws(FileSystemError) -> [ByteString], _ act: () async throws(FileSystemError) -> Void
    ) async throws(FileSystemError) {
        while true {
            let wanted = try prefixes()
            let passes: (namespace: KeyGate.Pass, names: KeyGate.Pass)
            do {
                let first = try await namespace.enter(alone: wanted)
                let second: KeyGate.Pass
                do { second = try await names.enter(alone: wanted) } catch {
                    namespace.leave(first)
                    throw error
                }
                passes = (first, second)
            } catch { throw .interrupted }
            defer {
                names.leave(passes.names)
                namespace.leave(passes.namespace)
            }
            if try prefixes() == wanted { return try await act() }
        }
    }

    /// Enters a gate for keys. A rename of a directory may change the keys while the call waits: then the call waits for the new
    /// keys.
    private func enter(_ gate: KeyGate, _ keys: () -> [ByteString]) async throws(FileSystemError) -> KeyGate.Pass {
        while true {
            let wanted = keys()
            let pass: KeyGate.Pass
            do { pass = try await gate.enter(wanted) } catch { throw .interrupted }
            if keys() == wanted { return pass }
            gate.leave(pass)
        }
    }

    /// The keys of inodes that have a name.
    private func keys(of inodes: [InodeNumber]) -> [ByteString] {
        inodes.compactMap { ino in (try? metadata.key(of: ino)) ?? nil }
    }

    /// The keys of directories with these names, so that the rename of such a directory conflicts.
    private func keys(of places: [Place]) -> [ByteString] {
        places.compactMap { place in
            (try? newKey(place.name, in: place.parent, kind: .directory).key.bytes)
                ?? (try? metadata.key(of: place.parent)) ?? nil
        }
    }
}
