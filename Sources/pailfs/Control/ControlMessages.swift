import Basics
import Commits
import FileSystem
import Journaling
import ObjectStorage

/// A command's request to the process that serves a mount: one line of JSON.
///
/// Paths are below the mountpoint, without a slash in front.
enum ControlRequest: Sendable, Codable {
    case status
    /// Stores everything dirty at or below the path. If `waits`, the answer comes when it is stored.
    case flush(path: ByteString, waits: Bool)
    case explain(path: ByteString)
    /// Makes the next use of anything at or below the path ask the store.
    case refresh(path: ByteString)
    /// Sends the waiting removals at or below the path. Returns where in the bucket it is, and how the mount reaches the bucket.
    case locate(path: ByteString)
    /// A command has changed the path's object at the store or, if `key` is set, the object with that key below the mount's
    /// prefix, and with a slash at the key's end all objects below it. `key` is newer than the version.
    case changed(path: ByteString, key: ByteString?)
    /// Changes options, in lists as of `-o`, from now on.
    case set(options: [String])
    /// Evicts cached blocks until they take at most so many bytes of disk.
    case prune(toBytes: Int64)
    /// Lists the files that a crash left unacknowledged.
    case recoverable
    /// Writes one of these files, by its number, to a new file; `evenIfPartial` is newer than the version.
    case save(file: Int64, path: String, evenIfDoubtful: Bool, evenIfPartial: Bool?)
    case commit(file: Int64, evenIfDoubtful: Bool)
    case discard(file: Int64)
}

/// The answer of the process: one line of JSON.
enum ControlAnswer: Sendable, Codable {
    case status(MountStatus)
    case flushed(FlushResult)
    case explained(PathReport)
    case located(ObjectPlace)
    case recoverable([RecoverableLine])
    case done
    /// The ranges that a saved file lacks.
    case partlySaved(missing: String)
    /// One sentence.
    case failed(String)
}

extension ControlAnswer {
    /// A file was saved without the bytes of `missing`.
    init(saved missing: [ByteRange]) {
        self = missing.isEmpty ? .done : .partlySaved(missing: RecoverableFile.text(missing))
    }
}

/// A request with the version of the protocol: a command and a mount of different versions detect that by it.
struct ControlEnvelope<Content: Codable & Sendable>: Codable, Sendable {
    var version = ControlLine.version
    var content: Content

    init(_ content: Content) { self.content = content }
}

/// What `pailfs status` shows of one mount; its names are those of `--json`.
struct MountStatus: Sendable, Codable {
    struct Cache: Sendable, Codable {
        var directory: String
        /// The directory of the journal and of files that are not stored; earlier versions of this program send nil: it is
        /// `directory`.
        var state: String?
        /// Bytes on disk of blocks and of files that are not stored, together, and their limit.
        var usedBytes: Int64
        var limitBytes: Int64
    }

    /// Memory for bytes of objects, free buffers included, and its limit.
    struct Memory: Sendable, Codable {
        var usedBytes: Int64
        var limitBytes: Int64
    }

    /// Files and requests that wait for the store.
    struct Queue: Sendable, Codable {
        var uploadingFiles: Int
        /// Files that are acknowledged and whose upload has not begun.
        var waitingFiles: Int
        /// Requests that wait because enough others are in flight.
        var waitingRequests: Int
    }

    /// Bytes of bodies sent to the store and received from it since the process began, counted while they are transferred.
    struct Traffic: Sendable, Codable {
        var sentBytes: Int64
        var receivedBytes: Int64
    }

    /// The mount's limits a second at this time of day; nil where there is none.
    struct Limits: Sendable, Codable {
        var uploadBytes: Int64?
        var downloadBytes: Int64?
        var requests: Int64?
    }

    /// Approximate cost of the requests since the process began, at list prices, without traffic and storage.
    struct Cost: Sendable, Codable {
        var amount: Double
        var currency: String
        /// `writeRequests`: writes, copies and listings; `freeRequests`: those that cost nothing; `readRequests`: the rest.
        var writeRequests: Int
        var readRequests: Int
        var freeRequests: Int
        /// Region, and year and month, of the price list.
        var region: String
        var month: String
    }

    /// Requests of one kind since the process began.
    struct Requests: Sendable, Codable {
        var requests: Int
        var failures: Int
        var retries: Int
        var inFlight: Int
        /// Times of the requests that succeeded; nil without one.
        var medianMilliseconds: Double?
        var p99Milliseconds: Double?
    }

    enum State: String, Sendable, Codable {
        case serving
        /// The process does not answer.
        case silent
    }

    var url: String
    var mountpoint: String
    var state: State
    var pid: Int32?
    /// ISO 8601.
    var since: String?
    /// The version of the program that serves the mount.
    var program: String?
    /// `remote` or `local`.
    var durable: String?
    var readOnly: Bool?
    /// Options that were changed after the mount.
    var changes: [String]?
    /// How the server has departed from its protocol.
    var departures: [String]?
    var cache: Cache?
    var memory: Memory?
    var activity: MountReport?
    var queue: Queue?
    var traffic: Traffic?
    /// nil without a limit.
    var limits: Limits?
    /// By operation.
    var requests: [String: Requests]?
    /// nil where no price is known.
    var cost: Cost?
}

extension MountStatus.Cost {
    init(_ meter: [ObjectStoreError.Operation: RequestMeter.Figures], _ prices: RequestPrices) {
        let estimate = prices.estimate(meter.mapValues(\.requests))
        self.init(
            amount: estimate.amount, currency: prices.currency, writeRequests: estimate.writes,
            readRequests: estimate.reads, freeRequests: estimate.free, region: prices.region, month: prices.month)
    }
}

/// The result of a flush.
struct FlushResult: Sendable, Codable {
    struct Unstored: Sendable, Codable {
        var path: String
        var reason: String
    }

    /// Files that were not in the bucket when the flush began.
    var files: Int
    /// At most `mostNames` of the files that were not stored.
    var unstored: [Unstored]
    var unstoredFiles: Int

    static let mostNames = 1000
}
