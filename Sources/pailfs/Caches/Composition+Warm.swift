import Basics
import Blocks
import ObjectStorage
import Synchronization

extension Composition {
    /// Reads the objects whose keys start with `prefix`, several at a time, into the cache, without a mount. Throws when they
    /// cannot be listed; other failures are in the tally.
    func warm(_ prefix: ByteString, jobs: Int, _ tally: WarmTally) throws(CommandError) {
        if tally.isShown { pool.start { [self] in await countAll(prefix, tally) } }
        do throws(ObjectStoreError) {
            try WorkAnswer.wait(on: pool) { [self] () async throws(ObjectStoreError) in
                try await readAll(prefix, jobs: jobs, tally)
            }
        } catch { throw CommandError("the files to read cannot be listed: \(error)") }
    }

    /// Counts for the progress display only: the total stays unknown if a page cannot be listed.
    private func countAll(_ prefix: ByteString, _ tally: WarmTally) async {
        var request = ListRequest(prefix: prefix)
        var progress = ListingProgress()
        while true {
            guard let page = try? await store.list(request), (try? progress.take(page)) != nil else { return }
            for object in page.objects where !object.key.bytes.hasSuffix("/") { tally.expect(object.version.size) }
            guard let next = page.next else { break }
            request.cursor = next
        }
        tally.counted()
    }

    private func readAll(_ prefix: ByteString, jobs: Int, _ tally: WarmTally) async throws(ObjectStoreError) {
        var request = ListRequest(prefix: prefix)
        var isEmpty = true
        var progress = ListingProgress()
        while true {
            let page = try await store.list(request)
            try progress.take(page)
            isEmpty = isEmpty && page.objects.isEmpty
            await withTaskGroup(of: Void.self) { group in
                for (index, object) in page.objects.filter({ !$0.key.bytes.hasSuffix("/") }).enumerated() {
                    if index >= jobs { await group.next() }
                    group.addTask(executorPreference: pool) { [self] in await read(object, tally) }
                }
            }
            guard let next = page.next else { break }
            request.cursor = next
        }
        if isEmpty, !prefix.isEmpty { tally.failed(Output.text(prefix), "no key starts with this prefix") }
    }

    private func read(_ object: ListedObject, _ tally: WarmTally) async {
        let content = blocks.open(object.key, object.version)
        let reader = ObjectReader(content)
        defer { reader.close() }
        let piece = Int64(1 << 20)
        do {
            var offset: Int64 = 0
            while offset < object.version.size {
                let range = offset..<min(object.version.size, offset + piece)
                let buffer = try await buffers.borrow(Int(piece))
                try await reader.read(range, into: buffer, at: 0)
                tally.read(range.length)
                offset = range.upperBound
            }
            // Closing drops the blocks whose bytes have not reached the disk.
            for _ in 0..<200 where !content.isComplete { try await Task.sleep(for: .milliseconds(5)) }
            tally.finished { content.isComplete }
        } catch { tally.failed(Output.text(object.key.bytes), "\(error)") }
    }
}
