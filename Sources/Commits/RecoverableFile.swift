package import Basics
import Glibc
package import Journaling
import ObjectStorage
package import Staging

/// A file that was being written when a process died, and was not acknowledged: its row and what there is of its
/// bytes.
///
/// A value, made from the row and the staging directory; reads the disk when it is made. The row and the bytes stay until the
/// user commits or discards them. Each byte is on this disk, in a hole that a program made, in the store's version, or in a part
/// of an upload, of which only a commit makes an object.
package struct RecoverableFile: Sendable {
    package let id: IntentID
    package let intent: FileIntent
    /// Where each byte is; nil when that was not written down.
    package let map: ExtentMap?
    /// Whether the bytes here are those that were written. After a power cut only flushed ones are.
    package let isCertain: Bool
    /// When bytes were written last.
    package let changed: Timestamp
    private let staging: String

    /// `directory` is where the staging file is, `boot` names the system that runs now. `acknowledged` is the row's map of
    /// acknowledged bytes; without it the staging file's own log counts.
    package init(
        _ id: IntentID, _ intent: FileIntent, stagedIn directory: String, boot: String, acknowledged: ExtentMap? = nil
    ) {
        (self.id, self.intent) = (id, intent)
        staging = "\(directory)/\(intent.staging)"
        let recorded =
            acknowledged ?? (intent.isWithdrawn ? intent.map : nil)
            ?? StagingArea.recordedMap(of: intent.staging, in: directory, baseSize: intent.baseSize)
        // Staged bytes past the end of the file on this disk do not exist: then the map is wrong.
        let length = (try? File(staging).size) ?? 0
        let staged = recorded?.pieces(in: 0..<Int64.max).last { $0.source.isHere }
        map = staged.map { $0.range.upperBound <= length } ?? true ? recorded : nil
        isCertain = intent.isFlushed || intent.boot == boot
        var status = stat()
        changed =
            unsafe stat(staging, &status) == 0
            ? Timestamp(status.st_mtim)
            : Timestamp(seconds: intent.changed)
    }

    /// The pieces that are in the version the file was opened with.
    package var missing: [ByteRange] { pieces { $0 == .base } }

    /// The pieces that are on this disk.
    package var here: [ByteRange] { pieces { $0.isHere } }

    /// The pieces that are in an unfinished upload: they cannot be read before a commit completes it.
    package var uploaded: [ByteRange] { pieces { $0 == .stored } }

    private func pieces(where isMeant: (PieceSource) -> Bool) -> [ByteRange] {
        guard let map else { return [] }
        return map.pieces(in: 0..<map.size).filter { isMeant($0.source) }.map(\.range)
    }

    /// Writes the file to `path`, which must not exist, holes as holes. Bytes that are not here come from `base`. Those that it
    /// does not have any more are an error that names them, and nothing is left at `path`; with `evenIfPartial` they become
    /// holes, and are returned.
    package func write(
        to path: String, base: (any BaseContent)?, evenIfPartial: Bool = false
    ) async throws(CommitError) -> [ByteRange] {
        guard let map else { throw Self.failure("there is no record of which bytes of the file were written") }
        guard uploaded.isEmpty || evenIfPartial else {
            throw Self.failure(
                "\(Self.text(uploaded)) in an unfinished upload at the store; run \"pailfs recover commit\", or add --partial to save the rest"
            )
        }
        let source: File
        let target: File
        do throws(FileError) {
            source = try File(staging)
            target = try File(path, .readWrite, create: .exclusive)
        } catch { throw .staging(.failed(errno: error.errno, reason: error.description)) }
        do throws(CommitError) {
            do throws(FileError) {
                try target.truncate(to: map.size)
                for range in here { try Self.copy(range, from: source, to: target) }
            } catch { throw .staging(.failed(errno: error.errno, reason: error.description)) }
            var left = uploaded
            for range in missing where try await !fetch(range, base, into: target, evenIfGone: evenIfPartial) {
                left.append(range)
            }
            do throws(FileError) { try target.sync() } catch {
                throw .staging(.failed(errno: error.errno, reason: error.description))
            }
            return left.sorted { $0.lowerBound < $1.lowerBound }
        } catch {
            try? File.remove(path)
            throw error
        }
    }

    private static func copy(_ range: ByteRange, from source: File, to target: File) throws(FileError) {
        let step: Int64 = 1 << 20
        var offset = range.lowerBound
        while offset < range.upperBound {
            let end = min(offset + step, range.upperBound)
            let bytes = try source.read(offset..<end)
            guard bytes.count == Int(end - offset) else {
                throw FileError(errno: EIO, operation: "read the staged bytes of", path: source.path)
            }
            try target.write(bytes, at: offset)
            offset = end
        }
    }

    /// Fetches a range from the base. False if the base is gone, and `evenIfGone` says that this is no error.
    private func fetch(
        _ range: ByteRange, _ base: (any BaseContent)?, into target: File, evenIfGone: Bool
    ) async throws(CommitError) -> Bool {
        guard let base else {
            if evenIfGone { return false }
            throw Self.failure("\(missingText) not on this disk; add --partial to save the rest")
        }
        do throws(ObjectStoreError) {
            try await base.read(range) { (bytes, offset) throws(ByteTransferError) in
                do throws(FileError) { try target.write(bytes, at: offset) } catch {
                    throw ByteTransferError(errno: error.errno, reason: error.description)
                }
            }
        } catch {
            guard error.kind == .preconditionFailed || error.kind == .notFound else {
                throw CommitError(error)
            }
            if evenIfGone { return false }
            throw Self.failure(
                "\(missingText) not on this disk, and the store no longer has their version (\(error)); add --partial to save the rest"
            )
        }
        return true
    }

    /// `bytes 0-99 and 200-299 are`, at most a few of them.
    package var missingText: String { Self.text(missing) }

    package static func text(_ ranges: [ByteRange]) -> String {
        var text = ranges.prefix(10).map { "\($0.lowerBound)-\($0.upperBound - 1)" }.joined(
            separator: ", ")
        if ranges.count > 10 { text += " and \(ranges.count - 10) more ranges" }
        return "bytes \(text) are"
    }

    private static func failure(_ reason: String) -> CommitError {
        .staging(.failed(errno: EIO, reason: reason))
    }
}
