import Basics
import Commits
import FileSystem
import Foundation
import ObjectStorage
import Synchronization
import TestSupport
import Testing

@testable import pailfs

/// A store and a directory, and copies between the two, or from another store.
final class CopyRig {
    static let partSize: Int64 = 5 << 20

    let store: MemoryStore
    let directory: TemporaryDirectory
    let shown = Shown()
    private(set) var tally = CopyTally()
    /// Items copied at the same time.
    var jobs = 4
    var memory = MemoryBudget(limit: 256 << 20)

    final class Shown: Sendable {
        let lines = Mutex<[String]>([])
    }

    init(_ capabilities: Capabilities = Capabilities()) throws {
        store = MemoryStore(capabilities: capabilities)
        directory = try TemporaryDirectory()
    }

    /// Bytes whose pieces of any usual size differ.
    static func bytes(_ count: Int64, seed: UInt64 = 1) -> [UInt8] {
        var generator = SeededGenerator(seed: seed)
        let block = (0..<4099).map { _ in UInt8.random(in: 0...255, using: &generator) }
        var bytes: [UInt8] = []
        while bytes.count < count { bytes += block }
        return Array(bytes[..<Int(count)])
    }

    // MARK: Files

    func path(_ name: String) -> String { directory.path(name) }

    func write(_ name: String, _ content: [UInt8]) throws {
        let path = path(name)
        try makeDirectory((name as NSString).deletingLastPathComponent)
        try Data(content).write(to: URL(fileURLWithPath: path))
    }

    func makeDirectory(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: path(name), withIntermediateDirectories: true)
    }

    func link(_ name: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(atPath: path(name), withDestinationPath: target)
    }

    func content(_ name: String) -> [UInt8]? { FileManager.default.contents(atPath: path(name)).map { Array($0) } }

    /// Names of everything below a directory.
    func names(_ name: String) -> [String] {
        (FileManager.default.enumerator(atPath: path(name))?.allObjects as? [String] ?? []).sorted()
    }

    // MARK: Copies

    /// A program that another test starts has the lock of the journal before until it runs (fork(2)).
    func journal() throws -> CopyJournal {
        for _ in 0..<5000 {
            if let journal = try CopyJournal(in: path("journal"), identity: ["test"], boot: "boot") { return journal }
            usleep(1000)
        }
        throw FileError(errno: EWOULDBLOCK, operation: "lock", path: path("journal"))
    }

    /// Names that were not copied.
    var failed: [String] { tally.failures.map { "\($0.name)" }.sorted() }

    func engine(
        _ rules: CopyRules = CopyRules(), _ journal: CopyJournal? = nil, present: [ByteString: String] = [:]
    ) -> CopyEngine {
        tally = CopyTally()
        let context = CopyContext(rules: rules, journal: journal, tally: tally, present: present, memory: memory)
        return CopyEngine(
            context: context, jobs: jobs,
            show: { [shown] line in shown.lines.withLock { $0.append(line.description) } })
    }

    func uploading(_ context: CopyContext, to root: ByteString) -> UploadOperation {
        var options = CommitOptions()
        options.partSize = Self.partSize
        return UploadOperation(
            store: store, root: root, options: options, named: NamedHeaders(types: ContentTypes(), rules: []),
            context: context)
    }

    /// Uploads what is in the directories below the key `root`.
    func upload(
        _ sources: String..., to root: ByteString, _ rules: CopyRules = CopyRules(), journal: CopyJournal? = nil,
        present: [ByteString: String] = [:]
    ) async throws {
        let engine = engine(rules, journal, present: present)
        try await engine.run(
            sources.map { source in
                CopyEngine.Part(
                    walk: try LocalWalk(path(source), beginning: "", followsLinks: rules.followsLinks),
                    operation: uploading(engine.context, to: root))
            })
    }

    /// Downloads what is below the prefix into the directory `destination`.
    func download(
        _ prefix: ByteString, to destination: String, _ rules: CopyRules = CopyRules(), journal: CopyJournal? = nil
    ) async throws {
        let engine = engine(rules, journal)
        let root = path(destination)
        let operation = DownloadOperation(
            store: store, root: root, umask: 0o022, directories: LocalDirectoryMaker(root), context: engine.context)
        let walk = ListedWalk(store, prefix: prefix, beginning: "", followsLinks: rules.followsLinks)
        try await engine.run([CopyEngine.Part(walk: walk, operation: operation)])
    }

    /// Copies what is below the prefix to `root`: of the same bucket, or with `reader` from another provider.
    func copy(
        _ prefix: ByteString, to root: ByteString, _ rules: CopyRules = CopyRules(), from reader: MemoryStore? = nil,
        journal: CopyJournal? = nil, present: [ByteString: String] = [:]
    ) async throws {
        let engine = engine(rules, journal, present: present)
        let operation = StoreCopyOperation(
            reader: reader ?? store, store: store, bucket: nil, isOfOneProvider: reader == nil,
            overlap: reader == nil ? prefix : nil, root: root, context: engine.context)
        let walk = ListedWalk(
            reader ?? store, prefix: prefix, beginning: "", followsLinks: rules.followsLinks)
        try await engine.run([CopyEngine.Part(walk: walk, operation: operation)])
    }

    /// Fails requests of this kind after the first `count`, as if the connection were cut.
    static func cut(_ operation: ObjectStoreError.Operation, after count: Int) -> MemoryStore.Fault {
        let counted = CountedRequests()
        return { asked, key in
            guard asked == operation, counted.next() > count else { return nil }
            return ObjectStoreError(.interrupted, asked, key: key, message: "cut")
        }
    }
}

/// Counts requests. Any thread may call.
final class CountedRequests: Sendable {
    private let count = Mutex(0)

    /// The number of this request, from 1.
    func next() -> Int {
        count.withLock { count in
            count += 1
            return count
        }
    }
}
