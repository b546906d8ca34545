import Basics
import Blocks
import FileSystem
import FuseBridge
import HTTP
import ObjectStorage

/// All figures of one mount, for `user.pailfs.stats` and for the metrics server. Reads the journal; sends no request to the
/// store.
struct MountFigures: Sendable {
    let identity: ControlService.Identity
    let fileSystem: BucketFileSystem
    let blocks: BlockCache
    let meter: RequestMeter
    let throttle: Throttle
    let limits: TrafficLimits
    let ledger: SpaceLedger
    let failures: FailureCounts

    private typealias Sample = Exposition.Sample

    /// The figures in the text format of Prometheus.
    var text: String {
        var figures = Exposition()
        figures.add(
            "build_info", .gauge, "Version of the program that serves the mount.",
            [
                Sample(
                    1, ("version", Entry.version), ("url", identity.url), ("mountpoint", identity.mountpoint))
            ])
        figures.add(
            "start_time_seconds", .gauge, "When the process began, in seconds since 1970.", identity.since.seconds)
        addRequests(&figures)
        // Waits for the journal's writer.
        let report = fileSystem.report(mostFiles: 0)
        addReads(report, &figures)
        addCache(&figures)
        addFiles(report, &figures)
        return figures.text
    }

    private func addRequests(_ figures: inout Exposition) {
        let all = meter.snapshot.sorted { $0.key.rawValue < $1.key.rawValue }
        figures.add(
            "requests_total", .counter, "Requests to the store that ended, by HTTP status; ok for all that succeeded.",
            all.flatMap { operation, count in
                let succeeded = count.requests - count.failures - count.inFlight
                return [Sample(succeeded, ("operation", operation.rawValue), ("status", "ok"))]
                    + count.failuresByStatus.sorted { $0.key < $1.key }.map {
                        Sample($0.value, ("operation", operation.rawValue), ("status", $0.key))
                    }
            })
        figures.add(
            "request_retries_total", .counter, "Retries of failed requests.",
            all.map { Sample($0.value.retries, ("operation", $0.key.rawValue)) })
        figures.add(
            "requests_in_flight", .gauge, "Requests that the store has not answered.",
            all.map { Sample($0.value.inFlight, ("operation", $0.key.rawValue)) })
        figures.add(
            "requests_waiting", .gauge, "Requests that wait because as many as allowed are in flight.", throttle.waiting
        )
        figures.add(
            "request_duration_seconds", .summary, "Time of requests that succeeded.",
            all.filter { $0.value.latency.count > 0 }.flatMap { operation, count in
                let name = operation.rawValue
                return [0.5, 0.9, 0.99].map {
                    Sample(
                        Double(count.latency.quantile($0)) / 1e9, ("operation", name), ("quantile", "\($0)"))
                } + [
                    Sample(Double(count.latency.sum) / 1e9, ("operation", name), suffix: "_sum"),
                    Sample(count.latency.count, ("operation", name), suffix: "_count"),
                ]
            })
        figures.add(
            "limit_bytes_per_second", .gauge, "Most bytes that may move a second; absent without a limit.",
            [("sent", limits.upload), ("received", limits.download)].compactMap { direction, limit in
                limit.map { Sample(Double($0), ("direction", direction)) }
            })
        figures.add(
            "sent_bytes_total", .counter, "Bytes of objects and parts that were sent.",
            all.reduce(0) { $0 + $1.value.sentBytes })
        figures.add(
            "fetched_bytes_total", .counter, "Bytes of objects that were fetched.", blocks.statistics().fetchedBytes)
    }

    private func addReads(_ report: MountReport, _ figures: inout Exposition) {
        figures.add(
            "cache_reads_total", .counter, "Reads of programs: answered at once, or after waiting.",
            [Sample(report.readHits, ("result", "hit")), Sample(report.readMisses, ("result", "miss"))])
        figures.add("read_bytes_total", .counter, "Bytes that programs read.", report.readBytes)
        let failed = failures.snapshot.sorted { ("\($0.key)", $0.value) < ("\($1.key)", $1.value) }
        figures.add(
            "failed_operations_total", .counter, "Calls of programs that failed for a reason that needs attention.",
            failed.map { Sample($0.value, ("operation", $0.key.operation), ("error", "\($0.key.kind)")) })
    }

    private func addCache(_ figures: inout Exposition) {
        let known = blocks.statistics()
        figures.add("cache_used_bytes", .gauge, "Disk that blocks and staged bytes take.", ledger.used)
        figures.add("cache_limit_bytes", .gauge, "Limit of the disk that they may take.", ledger.limit)
        figures.add("cache_clean_bytes", .gauge, "Disk that blocks of stored objects take.", known.storedBytes)
        figures.add("cache_memory_bytes", .gauge, "Memory that holds blocks instead of the disk.", known.shelvedBytes)
        figures.add("cache_fetches_total", .counter, "Ranges that were fetched into the cache.", known.fetches)
        figures.add(
            "cache_hedged_fetches_total", .counter, "Fetched ranges requested twice because the first byte was late.",
            known.hedges)
        figures.add("cache_evicted_bytes_total", .counter, "Bytes evicted from the cache.", known.evictedBytes)
        figures.add(
            "cache_corrupt_blocks_total", .counter, "Blocks that did not match their checksums.", known.corruptBlocks)
        figures.add(
            "cache_disk_failing", .gauge, "1 while the disk of the cache is full or fails.", known.isDiskFailing ? 1 : 0
        )
    }

    private func addFiles(_ report: MountReport, _ figures: inout Exposition) {
        figures.add("open_files", .gauge, "Files that programs have open.", report.openFiles)
        figures.add("open_handles", .gauge, "File descriptors that programs have open.", report.openHandles)
        figures.add(
            "backed_files", .gauge, "Open files that the kernel reads from the cache by itself.", report.backedFiles)
        figures.add(
            "dirty_files", .gauge, "Files that the bucket does not have as programs see them.", report.dirtyFiles)
        figures.add("staged_bytes", .gauge, "Disk that their changes take.", report.dirtyBytes)
        figures.add(
            "upload_queue_length", .gauge, "Acknowledged files that wait for their upload.", report.waitingFiles)
        figures.add("uploads_in_flight", .gauge, "Files on their way to the store.", report.uploadingFiles)
        figures.add(
            "upload_errors", .gauge, "Files that are not stored and whose last try failed.",
            report.failedFiles)
        figures.add("jobs", .gauge, "Renames and removals under way.", report.jobs.count)
        figures.add(
            "recoverable_files", .gauge, "Files for pailfs recover.", report.recoverableFiles)
    }
}
