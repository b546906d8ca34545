import Basics
import Commits
import FileSystem
import FuseBridge
import Glibc
import Journaling
import ObjectStorage
import Staging
import Synchronization

/// `pailfs recover` where nothing is mounted: this command has the lock of the state directory meanwhile.
///
/// Listing and discarding need the journal alone, and so does saving a file whose bytes are all on this disk. Anything else
/// composes all that a mount has, without a session, and stores the journal's other acknowledged files as well. With a damaged
/// journal, the files that are still readable can be listed and saved, and nothing else.
final class LocalRecovery {
    private enum State {
        case journal(CacheDirectoryLock, Journal)
        case remains(CacheDirectoryLock, JournalRemains)
        case composition(Composition, ControlService)
    }

    private let directory: String
    private let request: MountRequest?
    private var state: State?

    /// Locks the directory, which must hold a journal.
    init(_ directory: String, _ request: MountRequest?) throws(JournalingError) {
        (self.directory, self.request) = (directory, request)
        let path = directory + "/journal.db"
        guard Journal.exists(at: path) else { return }
        let lock = try CacheDirectoryLock(directory: directory, pid: getpid(), mountpoint: directory)
        do throws(JournalingError) { state = .journal(lock, try Journal(path: path)) } catch {
            guard error.isDamage else { throw error }
            let remains = try JournalRemains(of: path, in: directory)
            remains.explain()
            state = .remains(lock, remains)
        }
    }

    func answer(_ request: ControlRequest) throws(CommandError) -> ControlAnswer {
        switch (state, request) {
        case (nil, .recoverable): return .recoverable([])
        case (.composition(_, let service), _): return service.answer(request) { true }
        case (.journal(_, let journal), .recoverable):
            return .recoverable(try files(journal).map { RecoverableLine($0) })
        case (.remains(_, let remains), .recoverable): return .recoverable(remains.files.map { RecoverableLine($0) })
        case (.remains(_, let remains), .save(let number, let path, let evenIfDoubtful, let evenIfPartial)):
            guard let file = remains.files.first(where: { $0.id.rawValue == number }) else { break }
            guard file.isCertain || evenIfDoubtful else {
                throw CommandError(
                    "the machine went down before the bytes were flushed, so they may be wrong; add --doubtful to accept them"
                )
            }
            return try save(file, to: path, evenIfPartial ?? false)
        case (.remains(_, let remains), _): throw remains.refusal
        case (.journal(_, let journal), .discard(let number)):
            guard let file = try files(journal).first(where: { $0.id.rawValue == number }) else { break }
            do { try journal.write([.endFile(file.id)], flushed: true) } catch {
                throw CommandError("\(error)")
            }
            for suffix in ["", StagingArea.mapSuffix] {
                try? File.remove("\(directory)/staging/\(file.intent.staging)\(suffix)")
            }
            return .done
        case (.journal(_, let journal), .save(let number, let path, let evenIfDoubtful, let evenIfPartial)):
            // Without the request the store is unknown: missing bytes cannot be fetched.
            let isPartial = evenIfPartial == true && self.request == nil
            guard let file = try files(journal).first(where: { $0.id.rawValue == number }),
                file.missing.isEmpty && file.uploaded.isEmpty || isPartial,
                file.isCertain || evenIfDoubtful
            else { break }
            return try save(file, to: path, isPartial)
        default: break
        }
        return try compose().answer(request) { true }
    }

    /// Stores the other acknowledged files, and releases the directory. Call it at the end; throws when a file could not be
    /// stored.
    func finish() throws(CommandError) {
        defer { state = nil }
        switch state {
        case .journal(_, let journal)?: journal.close()
        case .remains?: break
        case .composition(let composition, _)?:
            defer { composition.close() }
            try composition.finishOrFail()
        case nil: break
        }
    }

    /// The unacknowledged rows with a change on this disk.
    private func files(_ journal: Journal) throws(CommandError) -> [RecoverableFile] {
        let contents: JournalContents
        do { contents = try journal.contents() } catch { throw CommandError("\(error)") }
        return contents.files.sorted { $0.key < $1.key }.filter { !$0.value.isAcknowledged }.map {
            RecoverableFile($0.key, $0.value, stagedIn: directory + "/staging", boot: journal.boot)
        }.filter { $0.intent.isFlushed || $0.map != ExtentMap(baseSize: $0.intent.baseSize) }
    }

    private func save(_ file: RecoverableFile, to path: String, _ evenIfPartial: Bool) throws(CommandError)
        -> ControlAnswer
    {
        WorkAnswer.wait(on: WorkerPool(threads: 2, name: "pailfs-work")) {
            do throws(CommitError) {
                return ControlAnswer(
                    saved: try await file.write(to: path, base: nil, evenIfPartial: evenIfPartial))
            } catch { return .failed(error.description) }
        }
    }

    /// Composes everything that a mount has, without a session.
    private func compose() throws(CommandError) -> ControlService {
        guard let request else {
            throw CommandError(
                "this needs the store; write the URL that was mounted, with its options, instead of \(directory)"
            )
        }
        if case .journal(_, let journal)? = state { journal.close() }
        // Releases the lock, which the composition takes again at once.
        state = nil
        let mountpoint: Mountpoint
        do { mountpoint = try Mountpoint(directory) } catch { throw CommandError(error) }
        let logger = try LogTarget(request.settings, foreground: true).logger(request.settings)
        let composition = try Composition(request, mountpoint: mountpoint, process: getpid(), logger: logger)
        let service = composition.service(request, mountpoint: mountpoint, process: getpid())
        state = .composition(composition, service)
        return service
    }
}
