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
        /// The parts of URLs in front of the keys of the source and of the destination, for messages: `s3://bucket/`.
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
    ///
    /// Two copies under one name would replace each other: with several sources, the name of the second one is refused.
    func run(_ parts: [Part]) async throws(ObjectStoreError) {
        var failure: ObjectStoreError?
        var names: Set<ByteString> = []
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
                    guard let item = item(found, of: part) else { continue }
                    if parts.count > 1, !item.isMarker, !names.insert(part.operation.destination(of: item)).inserted {
                        context.tally.refused(
                            part.sourceLabel + item.source.name, "another source has the same name at the destination")
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

    /// nil for a name that is not copied, which goes into the tally.
    private func item(_ found: WalkEntry, of part: Part) -> CopyItem? {
        switch found {
        case .item(let item): return item
        case .refused(let name, let reason): context.tally.refused(part.sourceLabel + name, reason)
        case .failed(let name, let reason): context.tally.failed(part.sourceLabel + name, reason)
        }
        return nil
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
