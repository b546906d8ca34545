import Basics
import FileSystem
import Metadata
import TestSupport

/// Carries out calls on a mount, one kernel request after the other, and writes down what it saw of each.
///
/// Used by one task. Requires: all tasks of the simulation run on one thread, as SeededScheduler has it.
final class Program: @unchecked Sendable {
    private let tree: MountedTree
    private let locks: KernelLocks
    /// Counts the beginnings and ends of all programs' steps.
    private let clock: Clock
    private(set) var events: [History.Event] = []
    private var first: InodeNumber?
    private var second: InodeNumber?
    private var found: InodeNumber?
    private var handle: (InodeNumber, HandleID)?
    /// Calls that were ESTALE when the kernel had repeated them.
    private(set) var stale: [String] = []
    /// After so many changes of names the program is killed in the next one.
    private var changesUntilKilled: Int?
    private var isKilled = false

    final class Clock: @unchecked Sendable {
        private var now = 0

        func tick() -> Int {
            now += 1
            return now
        }
    }

    init(on tree: MountedTree, _ locks: KernelLocks, _ clock: Clock, killedAfter changes: Int? = nil) {
        (self.tree, self.locks, self.clock, changesUntilKilled) = (tree, locks, clock, changes)
    }

    func run(_ calls: [Call]) async {
        for call in calls where !isKilled {
            guard await isStale(call) else { continue }
            if !isKilled, await isStale(call) { stale.append("\(call)") }
        }
    }

    /// Carries out a call; whether it ended with ESTALE.
    private func isStale(_ call: Call) async -> Bool {
        switch call {
        case .use(let directory, let name, let creating, let truncating, let steps):
            return await use(directory, name, creating, truncating, steps)
        case .unlink(let directory, let name): return await act(in: directory, .unlink(name))
        case .makeDirectory(let name): return await act(in: nil, .makeDirectory(name))
        case .removeDirectory(let name): return await act(in: nil, .removeDirectory(name))
        case .rename(let directory, let name, let newDirectory, let newName):
            guard await perform(.enter(.first, directory)) == .found(.directory),
                await perform(.enter(.second, newDirectory)) == .found(.directory)
            else { return isLastStale }
            _ = await perform(.rename(name, newName))
            return isLastStale
        }
    }

    private var isLastStale: Bool { events.last?.answer == .failed(.stale) }

    private func act(in directory: String?, _ step: Step) async -> Bool {
        guard await perform(.enter(.first, directory)) == .found(.directory) else { return isLastStale }
        _ = await perform(step)
        return isLastStale
    }

    private func use(
        _ directory: String?, _ name: String, _ creating: Bool, _ truncating: Bool, _ steps: [Step]
    ) async -> Bool {
        guard await perform(.enter(.first, directory)) == .found(.directory) else { return isLastStale }
        switch await perform(.look(name)) {
        case .found(.file): _ = await perform(.open(truncating: truncating))
        case .found(nil) where creating: await create(name, truncating)
        default: return isLastStale
        }
        guard !isKilled, events.last?.answer == .done else { return isLastStale }
        for step in steps { _ = await perform(step) }
        _ = await perform(.close)
        return false
    }

    /// The kernel looks once more when it has the directory locked.
    private func create(_ name: String, _ truncating: Bool) async {
        let lock = await locks.lock([first])
        switch await perform(.look(name)) {
        case .found(nil): _ = await perform(.create(name), holding: lock)
        case .found(.file): _ = await perform(.open(truncating: truncating), holding: lock)
        default: locks.unlock(lock)
        }
    }

    /// Carries out a step under the kernel's locks, which end with it.
    private func perform(_ step: Step, holding held: KernelLocks.Held? = nil) async -> Step.Answer {
        let lock = if let held { held } else { await lock(for: step) }
        let began = clock.tick()
        let answer: Step.Answer
        if isKilled(in: step) {
            isKilled = true
            answer = await finishWithoutCaller(step, lock)
        } else {
            answer = await outcome(of: step)
            locks.unlock(lock)
        }
        events.append(History.Event(step: step, began: began, ended: clock.tick(), answer: answer))
        return answer
    }

    private func outcome(of step: Step) async -> Step.Answer {
        do throws(MountedTree.Failure) { return try await attempt(step) } catch { return .failed(error.kind) }
    }

    private func isKilled(in step: Step) -> Bool {
        switch step {
        case .create, .unlink, .makeDirectory, .removeDirectory, .rename: break
        case .enter, .look, .open, .write, .read, .resize, .close: return false
        }
        guard let changes = changesUntilKilled else { return false }
        changesUntilKilled = changes - 1
        return changes == 0
    }

    private final class Dead: WaitingCaller { let isGone = true }

    /// The kernel unlocks what it has locked for a killed program, and pailfs goes on with the call to its end.
    private func finishWithoutCaller(_ step: Step, _ lock: KernelLocks.Held) async -> Step.Answer {
        let call = tree.pool.start { [self] in
            let answer = await CurrentCall.$caller.withValue(Dead()) { await outcome(of: step) }
            if let handle { _ = try? await tree.run(tree.system.release(handle.0, handle: handle.1)) }
            return answer
        }
        await Task.yield()
        await Task.yield()
        locks.unlock(lock)
        return await call.value
    }

    /// The directories first, then what is removed, moved or replaced.
    private func lock(for step: Step) async -> KernelLocks.Held {
        switch step {
        case .enter, .look, .open, .create, .read, .close: return KernelLocks.Held()
        case .write, .resize: return await locks.lock([handle?.0])
        case .makeDirectory: return await locks.lock([first])
        case .unlink(let name), .removeDirectory(let name):
            var held = await locks.lock([first])
            held += await locks.lock([await inode(name, first)])
            return held
        case .rename(let old, let new):
            var held = await locks.lock([first, second])
            held += await locks.lock([await inode(old, first), await inode(new, second)].filter { !held.has($0) })
            return held
        }
    }

    private func inode(_ name: String, _ directory: InodeNumber?) async -> InodeNumber? {
        guard let directory else { return nil }
        return (try? await look(name, in: directory))??.ino
    }

    private func attempt(_ step: Step) async throws(MountedTree.Failure) -> Step.Answer {
        let system = tree.system
        switch step {
        case .enter(let slot, let name):
            var status: FileStatus?
            if let name { status = try await look(name, in: .root) }
            let ino = name == nil ? .root : status?.ino
            if slot == .first { first = ino } else { second = ino }
            return .found(name == nil ? .directory : status?.kind)
        case .look(let name):
            let status = try await look(name, in: directory(first))
            found = status?.ino
            return .found(status?.kind)
        case .open(let truncating):
            guard let found else { throw MountedTree.Failure(kind: .notFound, reason: "") }
            let flags = OpenFlags(reads: true, writes: true, truncate: truncating)
            handle = (found, try await tree.run(system.open(found, flags: flags)).handle)
        case .create(let name):
            let reply = try await tree.run(
                system.create(
                    ByteString(name), in: directory(first), mode: 0o640, flags: OpenFlags(reads: true, writes: true),
                    caller: tree.caller))
            guard let ino = reply.entry.status?.ino else { throw MountedTree.Failure(kind: .inputOutput, reason: "") }
            handle = (ino, reply.open.handle)
        case .write(let bytes, let offset):
            let file = try opened()
            if let offset {
                try await tree.write(file, bytes, at: Int64(offset))
            } else {
                try await tree.append(file, bytes)
            }
        case .read: return .bytes(try await tree.read(try opened(), at: 0, count: 1 << 16))
        case .resize(let size):
            let file = try opened()
            var change = AttributeChange()
            change.size = Int64(size)
            _ = try await tree.run(system.setAttributes(file.0, to: change, handle: file.1))
        case .close:
            let file = try opened()
            handle = nil
            try await tree.close(file)
        case .unlink(let name): try await tree.run(system.unlink(ByteString(name), in: directory(first)))
        case .makeDirectory(let name):
            _ = try await tree.run(
                system.makeDirectory(ByteString(name), in: directory(first), mode: 0o750, caller: tree.caller))
        case .removeDirectory(let name):
            try await tree.run(system.removeDirectory(ByteString(name), in: directory(first)))
        case .rename(let old, let new):
            try await tree.run(
                system.rename(
                    ByteString(old), in: directory(first), to: ByteString(new), in: directory(second), noReplace: false)
            )
        }
        return .done
    }

    private func look(_ name: String, in directory: InodeNumber) async throws(MountedTree.Failure) -> FileStatus? {
        try await tree.run(tree.system.lookup(ByteString(name), in: directory)).status
    }

    private func directory(_ ino: InodeNumber?) throws(MountedTree.Failure) -> InodeNumber {
        guard let ino else { throw MountedTree.Failure(kind: .notFound, reason: "") }
        return ino
    }

    private func opened() throws(MountedTree.Failure) -> (InodeNumber, HandleID) {
        guard let handle else { throw MountedTree.Failure(kind: .badHandle, reason: "") }
        return handle
    }
}
