import Basics
import Glibc
import ObjectStorage

/// Copies what walks find, several items at the same time. An item that fails does not end the others, unless it is the only one or
/// its failure is one of the whole store.
struct CopyEngine: Sendable {
    /// A source: where its items come from, and what copies them.
    struct Part: Sendable {
        let walk: any CopyWalk
        let operation: any CopyOperation
        /// What stands before names of the source, and of the destination, for people: `s3://bucket/`.
        var sourceLabel: ByteString = ""
        var destinationLabel: ByteString = ""
    }

    let context: CopyContext
    /// Items copied at the same time.
    var jobs = 8
    /// Whether there is one item, whose failure is thrown.
    var isSingle = false
    /// Prints a line of `--dry-run`.
    var show: @Sendable (ByteString) -> Void = { Output.line(naming: $0) }

    /// Failures of single items are in the tally. Throws the failure that ended the run.
    func run(_ parts: [Part]) async throws(ObjectStoreError) {
        var failure: ObjectStoreError?
        await withTaskGroup(of: ObjectStoreError?.self) { group in
            var running = 0
            for part in parts where failure == nil {
                var walk = part.walk
                while failure == nil {
                    let found: WalkEntry?
                    do throws(ObjectStoreError) { found = try await walk.next() } catch {
                        failure = error
                        break
                    }
                    guard let found else { break }
                    guard case .item(let item) = found else {
                        if case .refused(let name, let reason) = found { context.tally.failed(name, reason) }
                        continue
                    }
                    if running >= jobs, let ended = await group.next() {
                        running -= 1
                        failure = failure ?? ended
                    }
                    guard failure == nil else { break }
                    group.addTask { await copy(item, part) }
                    running += 1
                }
            }
            for await ended in group { failure = failure ?? ended }
        }
        if let failure { throw failure }
    }

    /// Counts all items, for the progress.
    func count(_ parts: [Part]) async {
        for part in parts {
            var walk = part.walk
            while let found = try? await walk.next() {
                if case .item(let item) = found { context.tally.expect(item.size) }
            }
        }
        context.tally.counted()
    }

    /// Returns a failure that ends the run.
    private func copy(_ item: CopyItem, _ part: Part) async -> ObjectStoreError? {
        do throws(ObjectStoreError) {
            let outcome = try await part.operation.copy(item)
            if outcome == .planned {
                show(
                    part.sourceLabel + item.source.name + " -> " + part.destinationLabel
                        + part.operation.destination(of: item))
            }
            context.tally.ended(outcome)
            return nil
        } catch {
            if isSingle || error.endsEveryCopy { return error }
            context.tally.failed(part.sourceLabel + item.source.name, error.message)
            return nil
        }
    }
}

extension ObjectStoreError {
    /// Whether the other items of the same copy would fail as well.
    fileprivate var endsEveryCopy: Bool {
        switch kind {
        case .noSuchBucket, .credentialsRejected, .credentialsExpired, .clockSkew, .wrongRegion, .quotaExceeded,
            .storageFull, .unreachable, .insecure, .cancelled:
            true
        case .local(let errno): errno == ENOSPC || errno == EDQUOT
        default: false
        }
    }
}
