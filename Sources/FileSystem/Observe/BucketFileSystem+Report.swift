package import Basics
import Blocks
import Commits
import Journaling
package import Metadata
import ObjectStorage
import Staging
import Synchronization

/// The state of the mount, for `pailfs status` and its like. Nothing here waits for the store or changes anything.
extension BucketFileSystem {
    /// A snapshot with at most `mostFiles` files named. Reads the journal.
    package func report(mostFiles: Int) -> MountReport {
        var report = MountReport()
        let all = files.inUse
        report.openFiles = all.count { $0.users > 0 }
        report.openHandles = all.reduce(0) { $0 + $1.users }
        let dirty = all.filter(\.file.isDirty)
        report.dirtyFiles = dirty.count
        report.dirtyBytes = dirty.reduce(0) { $0 + Self.stagedBytes($1.file) }
        for (file, _) in dirty {
            switch Self.state(of: file) {
            case .uploading: report.uploadingFiles += 1
            case .waiting: report.waitingFiles += 1
            case .writing: break
            }
        }
        report.failedFiles = lastErrors.withLock { errors in
            dirty.count { errors.peek($0.file.ino)?.keepsFileUnstored == true }
        }
        // All of a line but its age takes lookups in the metadata cache.
        let oldest = dirty.map { (file: $0.file, isOpen: $0.users > 0, since: Self.changed($0.file)) }
            .sorted { ($0.since, $0.file.ino.rawValue) < ($1.since, $1.file.ino.rawValue) }.prefix(mostFiles)
        report.files = oldest.map { line($0.file, isOpen: $0.isOpen) }
            .sorted { ($0.since, $0.path) < ($1.since, $1.path) }
        report.jobs = ((try? rooms.journal.jobs()) ?? []).map { Self.line($0.intent, items: $0.items) }
        report.recoverableFiles = recoverableFiles.count
        let blocks = rooms.blocks.statistics()
        (report.blockBytes, report.memoryBytes) = (blocks.storedBytes, Int64(blocks.shelvedBytes))
        report.isDiskFailing = blocks.isDiskFailing
        report.backedFiles = kernel.reads?.backedCount ?? 0
        report.readHits = reads.hits.load(ordering: .relaxed)
        report.readMisses = reads.misses.load(ordering: .relaxed)
        report.readBytes = reads.bytes.load(ordering: .relaxed)
        return report
    }

    /// Departures of the server from its protocol that pailfs has seen, in words.
    package var departures: [String] {
        store.capabilities.quirks.sorted { $0.rawValue < $1.rawValue }.map(\.description)
    }

    private static func stagedBytes(_ file: ActiveFile) -> Int64 {
        let (draft, behind) = file.state.withLock { ($0.life.draft, $0.life.behind) }
        return (draft?.staged.reservedBytes ?? 0) + (behind?.staged.reservedBytes ?? 0)
    }

    private static func state(of file: ActiveFile) -> MountReport.File.State {
        let (draft, isAcknowledged) = file.state.withLock { ($0.life.draft, $0.life.isAcknowledged) }
        return draft?.commit.progress.isCommitting ?? false ? .uploading : isAcknowledged ? .waiting : .writing
    }

    /// When a file was first changed since it was stored, or when it was acknowledged, in seconds since 1970.
    private static func changed(_ file: ActiveFile) -> Int64 {
        file.state.withLock { $0.life.draft }?.record.intent.changed ?? file.attributes.ctime.seconds
    }

    private func line(_ file: ActiveFile, isOpen: Bool) -> MountReport.File {
        let (draft, size) = file.state.withLock { ($0.life.draft, $0.attributes.size) }
        let progress = draft?.commit.progress ?? CommitProgress()
        let last = lastErrors.withLock { $0.peek(file.ino) }
        let reason = last?.keepsFileUnstored == true ? last?.text : nil
        return MountReport.File(
            path: path(of: file.ino).description,
            key: ((try? metadata.key(of: file.ino)) ?? nil)?.description ?? "",
            state: Self.state(of: file), isOpen: isOpen, size: size,
            stagedBytes: Self.stagedBytes(file), sentBytes: progress.sentBytes, sentParts: progress.sentParts,
            partsUnderWay: progress.partsUnderWay, parts: progress.parts, since: Self.changed(file), lastError: reason)
    }

    private static func line(_ job: JobIntent, items: Int) -> MountReport.Job {
        switch job {
        case .removal(let record): MountReport.Job(kind: job.name, from: record.key.description, to: nil, objects: 1)
        case .rename(let record):
            MountReport.Job(
                kind: job.name, from: record.source.key.description, to: record.to.description, objects: 1)
        case .removals(let below), .moved(let below, _):
            MountReport.Job(kind: job.name, from: below.description, to: nil, objects: items)
        case .headers(let record):
            MountReport.Job(kind: job.name, from: record.source.key.description, to: nil, objects: 1)
        case .tree(let from, let to):
            MountReport.Job(kind: job.name, from: from.description, to: to.description, objects: items)
        }
    }

    // MARK: Paths

    /// The path in the mount, without a slash in front; empty for the top directory. An inode that is gone has its number.
    package func path(of ino: InodeNumber) -> ByteString {
        var path: ByteString = ""
        var current = ino
        // A key has at most a few thousand bytes; more steps mean a damaged cache.
        for _ in 0..<4096 where current != .root {
            guard let entry = (try? metadata.entry(current)) ?? nil else { return ByteString("inode \(ino)") }
            path = path.isEmpty ? entry.name : entry.name + "/" + path
            current = entry.parent
        }
        return path
    }

    /// The inode at a path in the mount, from the metadata cache, fresh or not.
    package func inode(at path: ByteString) throws(FileSystemError) -> InodeNumber {
        var ino = InodeNumber.root
        for name in path.bytes.split(separator: UInt8(ascii: "/")) {
            let answer = try cached { [ino] metadata throws(MetadataError) in
                try metadata.lookup(ByteString(name), in: ino)
            }
            guard case .present(let child, _) = answer else {
                throw FileSystemError(.notFound, "\(path) is not in the mount")
            }
            ino = child.ino
        }
        return ino
    }
}
