import Basics
import Commits
import FileSystem
import Journaling
import ObjectStorage

/// What a command asks of the process that serves a mount: one line of JSON.
///
/// Paths are below the mountpoint, without a slash in front.
enum ControlRequest: Sendable, Codable {
    case status
    /// Everything dirty at or below the path goes to the store; the answer comes when it is there if `waits`.
    case flush(path: ByteString, waits: Bool)
    case explain(path: ByteString)
    /// The next use of what is at or below the path asks the store.
    case refresh(path: ByteString)
    /// Where in the bucket a path is, and how the mount gets there.
    case locate(path: ByteString)
    /// A command changed the path's object at the store, or the one with that key below the mount's prefix, and with a slash at
    /// its end what is below; `key` is newer than the version.
    case changed(path: ByteString, key: ByteString?)
    /// Lists of options, as of `-o`, that go from now on.
    case set(options: [String])
    /// Cached blocks go until at most so many bytes of disk are theirs.
    case prune(toBytes: Int64)
    /// Files that a crash left unacknowledged.
    case recoverable
    /// Writes one of those, by its number, to a new file; `evenIfPartial` is newer than the version.
    case save(file: Int64, path: String, evenIfDoubtful: Bool, evenIfPartial: Bool?)
    case commit(file: Int64, evenIfDoubtful: Bool)
    case discard(file: Int64)
}

/// What the process answers: one line of JSON.
enum ControlAnswer: Sendable, Codable {
    case status(MountStatus)
    case flushed(FlushResult)
    case explained(PathReport)
    case located(ObjectPlace)
    case recoverable([RecoverableLine])
    case done
    /// Which bytes a file that was saved lacks.
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

/// A request with the version of its spelling: commands and mounts of different versions tell each other so.
struct ControlEnvelope<Content: Codable & Sendable>: Codable, Sendable {
    var version = ControlLine.version
    var content: Content

    init(_ content: Content) { self.content = content }
}

/// What `pailfs status` shows of one mount; its names are those of `--json`.
struct MountStatus: Sendable, Codable {
    struct Cache: Sendable, Codable {
        var directory: String
        /// Where the journal and files that are not stored are; nil of earlier versions of this program: in `directory`.
        var state: String?
        /// Bytes on disk of blocks and of files that are not stored, together, and the most they may be.
        var usedBytes: Int64
        var limitBytes: Int64
    }

    /// Memory that holds bytes of objects, kept to be used again included, and the most it may be.
    struct Memory: Sendable, Codable {
        var usedBytes: Int64
        var limitBytes: Int64
    }

    /// Who waits for the store.
    struct Queue: Sendable, Codable {
        var uploadingFiles: Int
        /// Acknowledged, and not begun.
        var waitingFiles: Int
        /// Because enough others are in flight.
        var waitingRequests: Int
    }

    /// Bytes of bodies that went to the store and came from it since the process began, while they move.
    struct Traffic: Sendable, Codable {
        var sentBytes: Int64
        var receivedBytes: Int64
    }

    /// What the mount may at most at this time of day, a second; nil where nothing limits it.
    struct Limits: Sendable, Codable {
        var uploadBytes: Int64?
        var downloadBytes: Int64?
        var requests: Int64?
    }

    /// What the requests since the process began cost at list prices, about: traffic and storage are not in it.
    struct Cost: Sendable, Codable {
        var amount: Double
        var currency: String
        /// Writes, copies and listings; the rest; and those that cost nothing.
        var writeRequests: Int
        var readRequests: Int
        var freeRequests: Int
        /// Of the list: its region, and its year and month.
        var region: String
        var month: String
    }

    /// Requests of one kind since the process began.
    struct Requests: Sendable, Codable {
        var requests: Int
        var failures: Int
        var retries: Int
        var inFlight: Int
        /// Of those that succeeded; nil without one.
        var medianMilliseconds: Double?
        var p99Milliseconds: Double?
    }

    enum State: String, Sendable, Codable {
        case serving
        /// Its process does not answer.
        case silent
    }

    var url: String
    var mountpoint: String
    var state: State
    var pid: Int32?
    /// ISO 8601.
    var since: String?
    /// Of the program that serves it.
    var program: String?
    /// `remote` or `local`.
    var durable: String?
    var readOnly: Bool?
    /// Options that were changed after the mount.
    var changes: [String]?
    /// How the server was seen to depart from its protocol.
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

/// What became of a flush.
struct FlushResult: Sendable, Codable {
    struct Unstored: Sendable, Codable {
        var path: String
        var reason: String
    }

    /// Files that were not in the bucket when it began.
    var files: Int
    /// Names at most `mostNames` of them.
    var unstored: [Unstored]
    var unstoredFiles: Int

    static let mostNames = 1000
}
