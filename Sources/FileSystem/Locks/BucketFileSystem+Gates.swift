import Basics
import Metadata
import ObjectStorage

/// What may not happen below a directory while that is renamed, and waits: its objects are copied as they are, and what came
/// about after they were listed would be missing at the new place, or be there again.
///
/// Two gates, taken in this order: `namespace` by whatever gives a file's bytes to its key, `names` by whatever else makes,
/// moves or removes names, changes headers, or begins to change a file. Inside, nothing waits for the same gate again, and in
/// `names` nothing for `namespace`. The rest of the mount goes on.
extension BucketFileSystem {
    /// Does what makes, moves or removes these names, as they are found in there: no other call does that to one of them meanwhile.
    /// The kernel keeps programs from it, but a program that was killed does not end its call, and the next one comes beside it.
    func claiming<Value: Sendable>(
        _ places: [Place], _ act: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        var held: [Place] = []
        defer { for (number, place) in held.enumerated() { nameClaims.end(place, as: .name(number)) } }
        // All in the same order, so that nobody waits for whom he keeps waiting.
        for place in Set(places).sorted(by: { ($0.parent, $0.name) < ($1.parent, $1.name) }) {
            try await nameClaims.begin(place, as: .name(held.count))
            held.append(place)
        }
        metadata.awaitForgetting()
        // After a wait that its program did not outlive a name may lead to something else than was meant.
        if CurrentCall.caller?.isGone == true { throw .interrupted }
        return try await act()
    }

    /// Does what makes this name, if nothing has it.
    func making<Value: Sendable>(
        _ place: Place, _ act: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        try await claiming([place]) { () async throws(FileSystemError) in try await changingNames([place], act) }
    }

    /// Does what changes these names, which are claimed.
    func changingNames<Value: Sendable>(
        _ places: [Place], _ change: () async throws(FileSystemError) -> Value
    ) async throws(FileSystemError) -> Value {
        let pass = try await enter(names) { keys(of: places) }
        defer { names.leave(pass) }
        return try await change()
    }

    /// Does what removes a directory, while no other call makes, moves or removes a name in it.
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

    /// Does what changes the object of an inode and neither its bytes nor its name.
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

    /// Comes back when whoever of us gives the file another key or object has come to the end of that: he has one of these gates
    /// until readers can follow. Callers hold none.
    func waitForMove(of ino: InodeNumber, _ file: ActiveFile?) async throws(FileSystemError) {
        names.leave(try await enterNames(of: [ino]))
        guard let file else { return }
        do { try await file.writing.enter() } catch { throw .interrupted }
        file.writing.leave()
    }

    /// Does the rename of a directory, alone below both keys.
    func alone(
        below prefixes: () throws(FileSystemError) -> [ByteString], _ act: () async throws(FileSystemError) -> Void
    ) async throws(FileSystemError) {
        while true {
            let wanted = try prefixes()
            let passes: (namespace: KeyGate.Pass, names: KeyGate.Pass)
            do {
                let first = try await namespace.enter(alone: wanted)
                do { passes = (first, try await names.enter(alone: wanted)) } catch {
                    namespace.leave(first)
                    throw error
                }
            } catch { throw .interrupted }
            defer {
                names.leave(passes.names)
                namespace.leave(passes.namespace)
            }
            if try prefixes() == wanted { return try await act() }
        }
    }

    /// The keys may be others when the turn has come: a renamed directory takes them along.
    private func enter(_ gate: KeyGate, _ keys: () -> [ByteString]) async throws(FileSystemError) -> KeyGate.Pass {
        while true {
            let wanted = keys()
            let pass: KeyGate.Pass
            do { pass = try await gate.enter(wanted) } catch { throw .interrupted }
            if keys() == wanted { return pass }
            gate.leave(pass)
        }
    }

    /// What has no name has no key, and nobody to wait for.
    private func keys(of inodes: [InodeNumber]) -> [ByteString] {
        inodes.compactMap { ino in (try? metadata.key(of: ino)) ?? nil }
    }

    /// As directories have them, which includes that the name is a renamed directory's.
    private func keys(of places: [Place]) -> [ByteString] {
        places.compactMap { place in
            (try? newKey(place.name, in: place.parent, kind: .directory).key.bytes)
                ?? (try? metadata.key(of: place.parent)) ?? nil
        }
    }
}
